/* Passes frames to another process in shared memory, where both work in place: frames 1000 */
#include <fastpipe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAME = 1920 * 1080 * 3 };

static int fail(const char *what) {
    fprintf(stderr, "frames: %s: %s\n", what, fastpipe_error());
    return 1;
}

static int produce(int socket, int frames) {
    fastpipe_ring *ring;
    if (fastpipe_ring_offer(&ring, socket, FASTPIPE_PRODUCER, 4 * FRAME) < 0)
        return fail("offer");
    for (int i = 0; i < frames; i++) {
        void *memory;
        size_t room;
        if (fastpipe_ring_lend(ring, FRAME, &memory, &room) < 0)
            return fail("lend");
        memset(memory, i, FRAME);
        if (fastpipe_ring_commit(ring, FRAME) < 0)
            return fail("commit");
    }
    fastpipe_ring_free(ring);
    return 0;
}

static int consume(int socket) {
    fastpipe_ring *ring;
    if (fastpipe_ring_accept(&ring, socket, FASTPIPE_CONSUMER, 0) < 0)
        return fail("accept");
    int frames = 0;
    for (;; frames++) {
        const void *data;
        size_t length;
        if (fastpipe_ring_peek(ring, FRAME, &data, &length) < 0)
            return fail("peek");
        if (length == 0)
            break;
        uint64_t sum = 0;
        for (size_t i = 0; i < FRAME; i++)
            sum += ((const unsigned char *)data)[i];
        if (sum != (uint64_t)FRAME * (unsigned char)frames) {
            fprintf(stderr, "frames: frame %d is wrong\n", frames);
            return 1;
        }
        if (fastpipe_ring_release(ring, FRAME) < 0)
            return fail("release");
    }
    printf("%d frames\n", frames);
    fastpipe_ring_free(ring);
    return 0;
}

int main(int argc, char **argv) {
    int frames = argc > 1 ? atoi(argv[1]) : 100;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        perror("socketpair");
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    if (child == 0) {
        close(ends[0]);
        return produce(ends[1], frames);
    }
    close(ends[1]);
    int result = consume(ends[0]);
    int status;
    waitpid(child, &status, 0);
    return result != 0 || status != 0;
}
