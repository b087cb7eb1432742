/* kills N [SEED]: ends either side of N rings and pipes by SIGKILL while data flows, and fails if the other side
 * hangs, gets a wrong byte, or leaves a descriptor or a process behind. */
#include "fastpipe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                            \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, fastpipe_error()); \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)

static void ring_produces(fastpipe_ring *ring) {
    for (uint64_t number = 0;;) {
        void *memory;
        size_t room;
        int result = fastpipe_ring_lend(ring, 8, &memory, &room);
        if (result == -ECONNRESET || result == -EPIPE)
            return;
        CHECK(result == 0);
        size_t n = room / 8;
        for (size_t i = 0; i < n; i++)
            ((uint64_t *)memory)[i] = number++;
        CHECK(fastpipe_ring_commit(ring, n * 8) == 0);
    }
}

static void ring_consumes(fastpipe_ring *ring) {
    for (uint64_t number = 0;;) {
        const void *data;
        size_t length;
        int result = fastpipe_ring_peek(ring, 8, &data, &length);
        if (result == -ECONNRESET || (result == 0 && length == 0))
            return;
        CHECK(result == 0 && length >= 8);
        for (size_t i = 0; i < length / 8; i++)
            CHECK(((const uint64_t *)data)[i] == number++);
        CHECK(fastpipe_ring_release(ring, length / 8 * 8) == 0);
    }
}

static void pipe_produces(int fd) {
    fastpipe_writer_options options = {.size = sizeof options, .flags = FASTPIPE_AT_ONCE};
    fastpipe_writer *writer;
    CHECK(fastpipe_writer_open(&writer, fd, &options) == 0);
    int result = 0;
    for (uint64_t number = 0; result == 0;) {
        void *memory;
        size_t room;
        result = fastpipe_writer_lend(writer, 0, &memory, &room);
        if (result == 0) {
            for (size_t i = 0; i < room / 8; i++)
                ((uint64_t *)memory)[i] = number++;
            result = fastpipe_writer_commit(writer, room / 8 * 8);
        }
    }
    CHECK(result == -EPIPE);
    fastpipe_writer_free(writer);
}

static void pipe_consumes(int fd) {
    fastpipe_reader *reader;
    CHECK(fastpipe_reader_open(&reader, fd, NULL) == 0);
    static unsigned char buffer[1 << 16];
    for (uint64_t position = 0;;) {
        ssize_t n = fastpipe_reader_read(reader, buffer, sizeof buffer);
        CHECK(n >= 0);
        if (n == 0)
            break;
        /* A killed writer may leave a part of a number. */
        for (ssize_t i = 0; i < n; i++, position++)
            CHECK(buffer[i] == (unsigned char)(position / 8 >> position % 8 * 8));
    }
    fastpipe_reader_free(reader);
}

static int lowest_free(void) {
    int fd = dup(2);
    close(fd);
    return fd;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    signal(SIGPIPE, SIG_IGN);
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
    int before = lowest_free();
    for (int round = 0; round < rounds; round++) {
        int is_ring = round & 1, child_produces = round & 2;
        int ends[2];
        CHECK((is_ring ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC)) == 0);
        /* Of a pipe, 0 is read and 1 written; of a socket either does. */
        int childs = child_produces ? 1 : 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            close(ends[1 - childs]);
            if (is_ring) {
                fastpipe_ring *ring;
                uint32_t role = child_produces ? FASTPIPE_PRODUCER : FASTPIPE_CONSUMER;
                if (fastpipe_ring_offer(&ring, ends[childs], role, 1 << 16) == 0)
                    (child_produces ? ring_produces : ring_consumes)(ring);
            } else {
                (child_produces ? pipe_produces : pipe_consumes)(ends[childs]);
            }
            _exit(0);
        }
        close(ends[childs]);
        /* Another process ends it, after a random time: this one is in the middle of things then. */
        pid_t killer = fork();
        CHECK(killer >= 0);
        if (killer == 0) {
            close(ends[1 - childs]);
            struct timespec time = {.tv_nsec = rand() % 3000000};
            nanosleep(&time, NULL);
            kill(child, SIGKILL);
            _exit(0);
        }
        rand();
        /* A wait that never ends is ended by this, and fails the test. */
        alarm(30);
        if (is_ring) {
            fastpipe_ring *ring;
            uint32_t role = child_produces ? FASTPIPE_CONSUMER : FASTPIPE_PRODUCER;
            int result = fastpipe_ring_accept(&ring, ends[1 - childs], role, 0);
            CHECK(result == 0 || result == -ECONNABORTED || result == -ECONNRESET);
            if (result == 0) {
                (child_produces ? ring_consumes : ring_produces)(ring);
                fastpipe_ring_free(ring);
            }
        } else {
            (child_produces ? pipe_consumes : pipe_produces)(ends[1 - childs]);
        }
        alarm(0);
        close(ends[1 - childs]);
        CHECK(waitpid(child, NULL, 0) == child);
        CHECK(waitpid(killer, NULL, 0) == killer);
    }
    CHECK(lowest_free() == before);
    printf("%d killed: no hang, no wrong byte, no descriptor left\n", rounds);
    return 0;
}
