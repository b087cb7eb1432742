/* Tests of the interface. Each fails with its line; `interface light` moves less, for valgrind. */
#include "fastpipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                            \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, fastpipe_error()); \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)

/* Structures only grow. */
_Static_assert(sizeof(fastpipe_writer_options) == 56, "writer options of 0.1");
_Static_assert(sizeof(fastpipe_reader_options) == 32, "reader options of 0.1");
_Static_assert(sizeof(fastpipe_copy_options) == 48, "copy options of 0.1");
_Static_assert(sizeof(fastpipe_report) == 48, "report of 0.1");
_Static_assert(sizeof(fastpipe_progress) == 32, "progress of 0.1");

static size_t volume = (size_t)64 << 20;

static unsigned char byte_at(size_t position) { return (unsigned char)(position * 2654435761u >> 16); }

static void fill(void *memory, size_t position, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)memory)[i] = byte_at(position + i);
}

static int is_right(const void *memory, size_t position, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)memory)[i] != byte_at(position + i))
            return 0;
    return 1;
}

/* Ends a forked child, whose inherited handles belong to its parent. */
_Noreturn static void end_child(int status) { _exit(status); }

static void ends_well(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Reads `total` bytes of the pattern, and the end. */
static pid_t reading_child(int fd, int write_end, size_t total) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0)
        return child;
    close(write_end);
    static unsigned char buffer[1 << 16];
    size_t position = 0;
    for (;;) {
        ssize_t n = read(fd, buffer, sizeof buffer);
        CHECK(n >= 0);
        if (n == 0)
            break;
        CHECK(is_right(buffer, position, (size_t)n));
        position += (size_t)n;
    }
    CHECK(position == total);
    end_child(0);
}

static void writes_what_was_lent(uint32_t method) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = reading_child(ends[0], ends[1], volume);
    close(ends[0]);
    fastpipe_writer_options options = {.size = sizeof options, .method = method, .flags = FASTPIPE_AT_ONCE};
    fastpipe_writer *writer;
    CHECK(fastpipe_writer_open(&writer, ends[1], &options) == 0);
    size_t position = 0;
    static unsigned char some[3000];
    while (position < volume) {
        void *memory;
        size_t room;
        CHECK(fastpipe_writer_lend(writer, position % 3 * 10000, &memory, &room) == 0);
        CHECK(room >= position % 3 * 10000 && room > 0);
        size_t n = room < volume - position ? room : volume - position;
        fill(memory, position, n);
        CHECK(fastpipe_writer_commit(writer, n) == 0);
        position += n;
        n = sizeof some < volume - position ? sizeof some : volume - position;
        fill(some, position, n);
        CHECK(fastpipe_writer_write(writer, some, n) == (ssize_t)n);
        position += n;
    }
    CHECK(fastpipe_writer_flush(writer) == 0);
    fastpipe_report report = {.size = sizeof report};
    CHECK(fastpipe_writer_report(writer, &report) == 0);
    CHECK(report.bytes == volume && report.syscalls > 0 && report.zero_copy_bytes <= report.bytes);
    CHECK(report.method != FASTPIPE_AUTO);
    CHECK(fastpipe_writer_finish(writer) == 0);
    CHECK(fastpipe_writer_finish(writer) == 0);
    CHECK(fastpipe_writer_flush(writer) == -EINVAL);
    char text[100];
    int length = fastpipe_writer_describe(writer, text, sizeof text);
    CHECK(length > 0 && (size_t)length == strlen(text));
    CHECK(fastpipe_writer_describe(writer, text, 6) == length && strlen(text) == 5);
    CHECK(fastpipe_writer_describe(writer, NULL, 0) == length);
    /* The writer has let go of the output: the reader sees the end when it is closed here. */
    CHECK(close(ends[1]) == 0);
    ends_well(child);
    fastpipe_writer_free(writer);
}

static void refuses_what_is_wrong(void) {
    fastpipe_writer *writer = (fastpipe_writer *)1;
    CHECK(fastpipe_writer_open(NULL, 1, NULL) == -EINVAL);
    CHECK(fastpipe_writer_open(&writer, -1, NULL) == -EBADF && writer == NULL);
    CHECK(strlen(fastpipe_error()) > 0);
    fastpipe_writer_options options = {.size = 3};
    CHECK(fastpipe_writer_open(&writer, 1, &options) == -EINVAL && strstr(fastpipe_error(), "sizeof"));
    options = (fastpipe_writer_options){.size = sizeof options, .method = 99};
    CHECK(fastpipe_writer_open(&writer, 1, &options) == -EINVAL && strstr(fastpipe_error(), "99"));
    options = (fastpipe_writer_options){.size = sizeof options, .wait = 9};
    CHECK(fastpipe_writer_open(&writer, 1, &options) == -EINVAL);
    options = (fastpipe_writer_options){.size = sizeof options, .flags = 1 << 10};
    CHECK(fastpipe_writer_open(&writer, 1, &options) == -EINVAL);
    /* Options of a later version: the fields that are not known here must be zero. */
    struct {
        fastpipe_writer_options known;
        uint64_t later;
    } later = {.known = {.size = sizeof later}, .later = 1};
    CHECK(fastpipe_writer_open(&writer, 1, &later.known) == -E2BIG);
    later.later = 0;
    CHECK(fastpipe_writer_open(&writer, 1, &later.known) == 0);
    fastpipe_writer_free(writer);

    CHECK(fastpipe_writer_commit(NULL, 0) == -EINVAL && fastpipe_writer_flush(NULL) == -EINVAL);
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    CHECK(fastpipe_writer_open(&writer, ends[1], NULL) == 0);
    CHECK(fastpipe_writer_commit(writer, 0) == -EINVAL);
    void *memory;
    size_t room;
    CHECK(fastpipe_writer_lend(writer, 1, NULL, &room) == -EINVAL);
    CHECK(fastpipe_writer_lend(writer, 1, &memory, &room) == 0);
    CHECK(fastpipe_writer_commit(writer, room + 1) == -EINVAL);
    /* Any other call ends the loan. */
    CHECK(fastpipe_writer_lend(writer, 1, &memory, &room) == 0);
    CHECK(fastpipe_writer_write(writer, "x", 1) == 1);
    CHECK(fastpipe_writer_commit(writer, 1) == -EINVAL);
    CHECK(fastpipe_writer_write(writer, NULL, 0) == 0);
    CHECK(fastpipe_writer_write(writer, NULL, 1) == -EINVAL);
    fastpipe_report report = {.size = 0};
    CHECK(fastpipe_writer_report(writer, &report) == -EINVAL);
    CHECK(fastpipe_writer_report(writer, NULL) == -EINVAL);
    /* Freeing flushes. */
    fastpipe_writer_free(writer);
    char got[2];
    CHECK(read(ends[0], got, 2) == 1 && got[0] == 'x');
    fastpipe_writer_free(NULL);
    fastpipe_reader_free(NULL);
    fastpipe_ring_free(NULL);

    /* Without a reader. */
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    CHECK(fastpipe_writer_open(&writer, ends[1], NULL) == 0);
    CHECK(fastpipe_writer_write(writer, "x", 1) == 1);
    CHECK(fastpipe_writer_flush(writer) == -EPIPE);
    CHECK(fastpipe_writer_finish(writer) == -EPIPE);
    fastpipe_writer_free(writer);
    close(ends[1]);
}

/* A part is accepted: the error comes with the next call, whatever that is, and once. */
static void tells_what_ended_a_write(void) {
    struct rlimit limits, low;
    CHECK(getrlimit(RLIMIT_FSIZE, &limits) == 0);
    low = limits;
    low.rlim_cur = 2 << 20;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    FILE *file = tmpfile();
    char *data = calloc(1, 3 << 20);
    fastpipe_writer *writer;
    CHECK(file && data && fastpipe_writer_open(&writer, fileno(file), NULL) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
    ssize_t accepted = fastpipe_writer_write(writer, data, 3 << 20);
    CHECK(accepted > 0 && accepted < 3 << 20);
    CHECK(setrlimit(RLIMIT_FSIZE, &limits) == 0);
    CHECK(fastpipe_writer_finish(writer) == -EFBIG);
    CHECK(fastpipe_writer_finish(writer) == 0);
    fastpipe_writer_free(writer);
    /* What could not be sent is not sent later, before other bytes. */
    CHECK(ftruncate(fileno(file), 0) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0);
    CHECK(fastpipe_writer_open(&writer, fileno(file), NULL) == 0);
    low.rlim_cur = 4096;
    CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
    CHECK(fastpipe_writer_write(writer, data, 5000) == 5000);
    CHECK(fastpipe_writer_flush(writer) == -EFBIG);
    CHECK(setrlimit(RLIMIT_FSIZE, &limits) == 0);
    CHECK(ftruncate(fileno(file), 0) == 0);
    fastpipe_writer_free(writer);
    struct stat about;
    CHECK(fstat(fileno(file), &about) == 0 && about.st_size == 0);
    free(data);
    fclose(file);
    signal(SIGXFSZ, handler);
}

struct input {
    fastpipe_reader *reader;
    size_t total;
};

static void *reading_thread(void *of) {
    struct input *input = of;
    static unsigned char some[10000];
    for (size_t got = 0; got < input->total;) {
        ssize_t n = fastpipe_reader_read(input->reader, some, sizeof some);
        CHECK(n > 0 && is_right(some, got, (size_t)n));
        got += (size_t)n;
    }
    return NULL;
}

static void ignore(int signal) {
    (void)signal;
}

/* Again and again: the first one may come before the wait. */
static void a_signal_ends_a_wait_if_asked(void) {
    struct sigaction before, notes = {.sa_handler = ignore};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0 && sigaction(SIGALRM, &notes, &before) == 0);
    fastpipe_writer_options options = {.size = sizeof options, .flags = FASTPIPE_INTERRUPTIBLE};
    fastpipe_writer *writer;
    CHECK(fastpipe_writer_open(&writer, ends[1], &options) == 0);
    fastpipe_reader_options reading = {.size = sizeof reading, .flags = FASTPIPE_READER_INTERRUPTIBLE};
    fastpipe_reader *reader;
    CHECK(fastpipe_reader_open(&reader, ends[0], &reading) == 0);
    static unsigned char some[100000];
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    CHECK(fastpipe_reader_read(reader, some, sizeof some) == -EINTR);
    size_t written = 0;
    ssize_t n;
    for (;;) {
        fill(some, written, sizeof some);
        n = fastpipe_writer_write(writer, some, sizeof some);
        if (n < 0)
            break;
        written += (size_t)n;
    }
    CHECK(n == -EINTR && written > 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    /* Nothing is lost. */
    pthread_t thread;
    struct input input = {reader, written};
    CHECK(pthread_create(&thread, NULL, reading_thread, &input) == 0);
    CHECK(fastpipe_writer_finish(writer) == 0 && pthread_join(thread, NULL) == 0);
    fastpipe_writer_free(writer);
    fastpipe_reader_free(reader);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    CHECK(sigaction(SIGALRM, &before, NULL) == 0);
}

static void set_alarms(suseconds_t every) {
    struct itimerval when = {{0, every}, {0, every}};
    CHECK(setitimer(ITIMER_REAL, &when, NULL) == 0);
}

/* The signals end one wait, and nothing ends another. */
static void one_signal_is_enough(void) {
    struct sigaction before, notes = {.sa_handler = ignore};
    CHECK(sigaction(SIGALRM, &notes, &before) == 0);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *data = calloc(1, page);
    enum { FREED, DISCARDED, WRITTEN };
    for (int how = FREED; how <= WRITTEN; how++) {
        int ends[2];
        CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        size_t filled = 0, got = 0;
        ssize_t n;
        while ((n = write(ends[1], data, page)) > 0)
            filled += (size_t)n;
        CHECK(errno == EAGAIN && fcntl(ends[1], F_SETFL, 0) == 0);
        fastpipe_writer_options options = {
            .size = sizeof options, .flags = FASTPIPE_INTERRUPTIBLE | FASTPIPE_KEEP_CAPACITY};
        fastpipe_writer *writer;
        CHECK(fastpipe_writer_open(&writer, ends[1], &options) == 0);
        CHECK(fastpipe_writer_write(writer, data, page) == (ssize_t)page);
        set_alarms(1000);
        if (how == WRITTEN)
            /* The second page fills the buffer. */
            CHECK(fastpipe_writer_write(writer, data, page) == (ssize_t)page);
        else
            CHECK(fastpipe_writer_finish(writer) == -EINTR);
        set_alarms(0);
        if (how == WRITTEN)
            CHECK(fastpipe_writer_write(writer, data, 1) == -EINTR);
        if (how == DISCARDED) {
            CHECK(fastpipe_writer_discard(writer) == 0 && fastpipe_writer_discard(writer) == 0);
            CHECK(fastpipe_writer_finish(writer) == -EINVAL);
            CHECK(fastpipe_writer_write(writer, data, 1) == -EINVAL);
        }
        fastpipe_writer_free(writer);
        close(ends[1]);
        while ((n = read(ends[0], data, page)) > 0)
            got += (size_t)n;
        CHECK(got == filled);
        close(ends[0]);
    }
    free(data);
    CHECK(sigaction(SIGALRM, &before, NULL) == 0);
}

/* Freeing a writer whose bytes were given up sends nothing. */
static void gives_up_what_is_discarded(void) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    fastpipe_writer *writer;
    CHECK(fastpipe_writer_discard(NULL) == -EINVAL);
    CHECK(fastpipe_writer_open(&writer, ends[1], NULL) == 0);
    CHECK(fastpipe_writer_write(writer, "old", 3) == 3);
    CHECK(fastpipe_writer_discard(writer) == 0);
    fastpipe_writer_free(writer);
    CHECK(fastpipe_writer_open(&writer, ends[1], NULL) == 0);
    CHECK(fastpipe_writer_write(writer, "new", 3) == 3 && fastpipe_writer_finish(writer) == 0);
    fastpipe_report report = {.size = sizeof report};
    CHECK(fastpipe_writer_discard(writer) == 0 && fastpipe_writer_report(writer, &report) == 0 && report.bytes == 3);
    fastpipe_writer_free(writer);
    close(ends[1]);
    char got[10];
    CHECK(read(ends[0], got, sizeof got) == 3 && memcmp(got, "new", 3) == 0);
    close(ends[0]);
}

static void never_waits_if_asked(void) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    fastpipe_writer_options options = {.size = sizeof options, .wait = FASTPIPE_WAIT_NEVER};
    fastpipe_writer *writer;
    CHECK(fastpipe_writer_open(&writer, ends[1], &options) == 0);
    static unsigned char some[100000];
    size_t written = 0;
    ssize_t n;
    for (;;) {
        fill(some, written, sizeof some);
        n = fastpipe_writer_write(writer, some, sizeof some);
        if (n < 0)
            break;
        written += (size_t)n;
        CHECK(written < (size_t)1 << 30);
    }
    CHECK(n == -EAGAIN && written > 0);
    fastpipe_reader_options reading = {.size = sizeof reading, .wait = FASTPIPE_WAIT_NEVER, .buffer = 1 << 16};
    fastpipe_reader *reader;
    CHECK(fastpipe_reader_open(&reader, ends[0], &reading) == 0);
    size_t got = 0;
    int flushed = -EAGAIN;
    while (got < written) {
        const void *data;
        size_t length;
        int result = fastpipe_reader_fill(reader, &data, &length);
        if (result == -EAGAIN) {
            CHECK(flushed == -EAGAIN);
            flushed = fastpipe_writer_flush(writer);
            continue;
        }
        CHECK(result == 0 && length > 0);
        CHECK(is_right(data, got, length));
        CHECK(fastpipe_reader_consume(reader, length + 1) == -EINVAL);
        CHECK(fastpipe_reader_consume(reader, length) == 0);
        got += length;
    }
    CHECK(got == written);
    CHECK(fastpipe_writer_finish(writer) == 0);
    fastpipe_writer_free(writer);
    close(ends[1]);
    CHECK(fastpipe_reader_read(reader, some, sizeof some) == 0);
    CHECK(fastpipe_reader_read(reader, NULL, 1) == -EINVAL);
    fastpipe_reader_free(reader);
    close(ends[0]);
}

static int stop_at_once(void *data, const fastpipe_progress *progress) {
    CHECK(progress->size == sizeof *progress && progress->given <= progress->taken);
    ++*(int *)data;
    return 1;
}

static void copies(void) {
    FILE *input = tmpfile(), *output = tmpfile();
    CHECK(input && output);
    size_t total = 3000000;
    unsigned char *all = malloc(total);
    CHECK(all);
    fill(all, 0, total);
    CHECK(write(fileno(input), all, total) == (ssize_t)total);
    CHECK(lseek(fileno(input), 0, SEEK_SET) == 0);
    CHECK(fastpipe_copy(fileno(input), fileno(output), NULL) == (int64_t)total);
    CHECK(pread(fileno(output), all, total, 0) == (ssize_t)total && is_right(all, 0, total));
    free(all);
    CHECK(fastpipe_copy(-1, 1, NULL) == -EBADF);

    /* Through a pipe that nobody reads: as much as is left in it was given, the rest is still in the file. */
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    CHECK(lseek(fileno(input), 0, SEEK_SET) == 0);
    int calls = 0;
    fastpipe_copy_options options = {
        .size = sizeof options, .progress = stop_at_once, .data = &calls, .flags = FASTPIPE_COPY_BYTES};
    int64_t given = fastpipe_copy(fileno(input), ends[1], &options);
    CHECK(given >= 0 && calls > 0);
    CHECK(lseek(fileno(input), 0, SEEK_CUR) == given);
    const void *data;
    size_t length = 1;
    CHECK(fastpipe_copy_undelivered(&data, &length) == 0 && length == 0);
    options = (fastpipe_copy_options){.size = sizeof options, .limit = 1000};
    CHECK(fastpipe_copy(fileno(input), ends[1], &options) == 1000);

    /* From a pipe to one whose reader is gone: what was taken is kept. */
    int broken[2];
    CHECK(pipe2(broken, O_CLOEXEC) == 0);
    close(broken[0]);
    int source[2];
    CHECK(pipe2(source, O_CLOEXEC) == 0);
    CHECK(write(source[1], "left", 4) == 4);
    close(source[1]);
    options = (fastpipe_copy_options){.size = sizeof options, .flags = FASTPIPE_COPY_BYTES};
    CHECK(fastpipe_copy(source[0], broken[1], &options) == -EPIPE);
    CHECK(fastpipe_copy_undelivered(&data, &length) == 0);
    char rest[8];
    size_t in_pipe = (size_t)read(source[0], rest, sizeof rest);
    CHECK(length + in_pipe == 4);
    close(source[0]), close(broken[1]), close(ends[0]), close(ends[1]);
    fclose(input), fclose(output);
}

static void *producing_thread(void *ring) {
    size_t position = 0;
    while (position < volume) {
        void *memory;
        size_t room;
        CHECK(fastpipe_ring_lend(ring, 100, &memory, &room) == 0 && room >= 100);
        size_t n = room < volume - position ? room : volume - position;
        fill(memory, position, n);
        CHECK(fastpipe_ring_commit(ring, n) == 0);
        position += n;
    }
    CHECK(fastpipe_ring_wait_drained(ring) == 0);
    fastpipe_ring_free(ring);
    return NULL;
}

static void rings_between_threads(void) {
    fastpipe_ring *producer, *consumer;
    CHECK(fastpipe_ring_pair(&producer, &consumer, 0) == -EINVAL && !producer && !consumer);
    CHECK(fastpipe_ring_pair(&producer, &consumer, 100000) == 0);
    const size_t capacity = fastpipe_ring_capacity(producer), page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(capacity >= 100000 && capacity < 100000 + page && capacity % page == 0);
    CHECK(fastpipe_ring_capacity(consumer) == capacity);
    const void *data;
    void *memory;
    size_t length, room;
    CHECK(fastpipe_ring_peek(producer, 1, &data, &length) == -EINVAL && strstr(fastpipe_error(), "producer"));
    CHECK(fastpipe_ring_lend(consumer, 1, &memory, &room) == -EINVAL);
    CHECK(fastpipe_ring_lend(producer, 131072, &memory, &room) == -EINVAL);
    CHECK(fastpipe_ring_ready_fd(producer) == -EOPNOTSUPP);
    CHECK(fastpipe_ring_release(consumer, 1) == -EINVAL);
    CHECK(fastpipe_ring_set_wait(consumer, FASTPIPE_WAIT_NEVER, 0) == 0);
    CHECK(fastpipe_ring_peek(consumer, 1, &data, &length) == -EAGAIN);
    CHECK(fastpipe_ring_set_wait(consumer, FASTPIPE_WAIT_BLOCK, 1000000) == 0);
    CHECK(fastpipe_ring_peek(consumer, 1, &data, &length) == -ETIMEDOUT);
    CHECK(fastpipe_ring_set_wait(consumer, FASTPIPE_WAIT_BLOCK, 0) == 0);
    CHECK(fastpipe_ring_peer(consumer) == FASTPIPE_PEER_RUNNING);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, producing_thread, producer) == 0);
    size_t position = 0;
    for (;;) {
        CHECK(fastpipe_ring_peek(consumer, 1, &data, &length) == 0);
        if (length == 0)
            break;
        CHECK(is_right(data, position, length));
        CHECK(fastpipe_ring_release(consumer, length) == 0);
        position += length;
    }
    CHECK(position == volume);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fastpipe_ring_peer(consumer) == FASTPIPE_PEER_CLOSED);
    fastpipe_ring_free(consumer);
}

static void messages_between_processes(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    fastpipe_ring *ring;
    if (child == 0) {
        close(ends[0]);
        CHECK(fastpipe_ring_offer(&ring, ends[1], FASTPIPE_PRODUCER, 1 << 16) == 0);
        static char message[1000];
        for (size_t n = 0; n < sizeof message; n++) {
            memset(message, (int)n, n);
            CHECK(fastpipe_ring_send(ring, message, n) == 0);
        }
        CHECK(fastpipe_ring_send(ring, message, 1 << 16) == -EINVAL);
        fastpipe_ring_free(ring);
        end_child(0);
    }
    close(ends[1]);
    CHECK(fastpipe_ring_accept(&ring, ends[0], 7, 0) == -EINVAL && !ring);
    CHECK(fastpipe_ring_accept(&ring, ends[0], FASTPIPE_CONSUMER, 0) == 0);
    CHECK(fastpipe_ring_set_wait(ring, FASTPIPE_WAIT_NEVER, 0) == 0);
    int ready = fastpipe_ring_ready_fd(ring);
    CHECK(ready >= 0);
    const void *message;
    size_t length;
    for (size_t n = 0;;) {
        int result = fastpipe_ring_receive(ring, &message, &length);
        if (result == -EAGAIN) {
            struct pollfd readable = {.fd = ready, .events = POLLIN};
            CHECK(poll(&readable, 1, 10000) == 1);
            continue;
        }
        if (result == 0) {
            CHECK(n == 1000);
            break;
        }
        CHECK(result == 1 && length == n);
        for (size_t i = 0; i < n; i++)
            CHECK(((const char *)message)[i] == (char)n);
        n++;
    }
    ends_well(child);
    fastpipe_ring_free(ring);
    close(ends[0]);
}

/* A child takes an end that it inherited as standard input, and dies: its end is passed through exec. */
static void an_end_through_exec_and_death(const char *self) {
    fastpipe_ring *producer, *consumer;
    CHECK(fastpipe_ring_pair(&producer, &consumer, 1 << 16) == 0);
    int fd = fastpipe_ring_into_fd(producer);
    CHECK(fd >= 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fd, 0);
        execl(self, self, "produce-and-stop", (char *)NULL);
        end_child(127);
    }
    close(fd);
    CHECK(fastpipe_ring_watch(consumer, -1) == -EINVAL);
    int watched = fastpipe_ring_watch(consumer, child);
    if (watched == -EOPNOTSUPP) {
        fprintf(stderr, "SKIPPED: death of a child: no pidfd_open here (old versions of valgrind have none)\n");
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        fastpipe_ring_free(consumer);
        return;
    }
    CHECK(watched == 0);
    const void *data;
    size_t length;
    CHECK(fastpipe_ring_peek(consumer, 5, &data, &length) == 0 && length == 5 && memcmp(data, "alive", 5) == 0);
    CHECK(fastpipe_ring_release(consumer, 5) == 0);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(fastpipe_ring_peek(consumer, 1, &data, &length) == -ECONNRESET);
    CHECK(fastpipe_ring_peer(consumer) == FASTPIPE_PEER_DIED);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    fastpipe_ring_free(consumer);
}

static int produce_and_stop(void) {
    fastpipe_ring *producer;
    CHECK(fastpipe_ring_from_fd(&producer, 0, FASTPIPE_PRODUCER) == 0);
    CHECK(fastpipe_ring_watch(producer, 0) == 0);
    void *memory;
    size_t room;
    CHECK(fastpipe_ring_lend(producer, 5, &memory, &room) == 0);
    memcpy(memory, "alive", 5);
    CHECK(fastpipe_ring_commit(producer, 5) == 0);
    for (;;)
        pause();
}

static void forked_children_refuse(uint32_t method) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    fastpipe_writer_options options = {.size = sizeof options, .method = method};
    fastpipe_writer *writer;
    CHECK(fastpipe_writer_open(&writer, ends[1], &options) == 0);
    CHECK(fastpipe_writer_write(writer, "once", 4) == 4);
    /* One child tries everything, the other only frees the writer. */
    for (int tries = 0; tries < 2; tries++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            void *memory;
            size_t room;
            if (tries) {
                CHECK(fastpipe_writer_write(writer, "x", 1) == -EIO && strlen(fastpipe_error()) > 0);
                CHECK(fastpipe_writer_lend(writer, 1, &memory, &room) == -EIO);
                CHECK(fastpipe_writer_flush(writer) == -EIO);
                CHECK(fastpipe_writer_finish(writer) == -EIO);
            }
            fastpipe_writer_free(writer);
            end_child(0);
        }
        ends_well(child);
    }
    CHECK(fastpipe_writer_finish(writer) == 0);
    fastpipe_writer_free(writer);
    char got[10];
    close(ends[1]);
    CHECK(read(ends[0], got, sizeof got) == 4 && memcmp(got, "once", 4) == 0);
    CHECK(read(ends[0], got, sizeof got) == 0);
    close(ends[0]);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "produce-and-stop") == 0)
        return produce_and_stop();
    if (argc > 1 && strcmp(argv[1], "light") == 0)
        volume = 1 << 20;
    CHECK(strcmp(fastpipe_version(), "0.1.0") == 0);
    CHECK(strcmp(fastpipe_error(), "") == 0);
    int free_before = dup(0);
    close(free_before);
    for (uint32_t method = FASTPIPE_AUTO; method <= FASTPIPE_DRAINED; method++)
        writes_what_was_lent(method);
    refuses_what_is_wrong();
    tells_what_ended_a_write();
    a_signal_ends_a_wait_if_asked();
    one_signal_is_enough();
    gives_up_what_is_discarded();
    never_waits_if_asked();
    copies();
    rings_between_threads();
    messages_between_processes();
    an_end_through_exec_and_death(argv[0]);
    for (uint32_t method = FASTPIPE_AUTO; method <= FASTPIPE_DRAINED; method++)
        forked_children_refuse(method);
    /* Nothing was left open. */
    int free_after = dup(0);
    CHECK(free_after == free_before);
    puts("passed");
    return 0;
}
