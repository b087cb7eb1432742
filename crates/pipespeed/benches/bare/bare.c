/* The ladder's rungs as bare loops over the system calls: nothing is counted,
   nothing is checked but errors. The yardstick for pipespeed's own ends.

   bare write|read TECHNIQUE WAIT PAGES BUFFER CPU WARM_UP_MS TIMED_MS
   TECHNIQUE: write, vmsplice | read, splice    WAIT: block, spin
   PAGES: base, huge

   The reader prints the bytes and the nanoseconds of its timed part. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HUGE_PAGE (2u << 20)
#define LOOK_EVERY (1u << 20)

static void die(const char *what) {
    perror(what);
    exit(1);
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void stay_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (cpu >= 0 && sched_setaffinity(0, sizeof set, &set)) die("affinity");
}

static char *memory(size_t len, int huge) {
    size_t unit = huge ? HUGE_PAGE : 4096;
    size_t whole = (len + unit - 1) / unit * unit;
    char *p = aligned_alloc(unit, whole);
    if (!p) die("memory");
    if (huge) madvise(p, whole, MADV_HUGEPAGE);
    memset(p, 'X', whole);
    return p;
}

static void dont_block(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) die("O_NONBLOCK");
}

static void send_write(const char *p, size_t len) {
    while (len) {
        ssize_t n = write(1, p, len);
        if (n < 0) {
            if (errno == EAGAIN) continue;
            exit(0);
        }
        p += n;
        len -= (size_t)n;
    }
}

static void send_vmsplice(char *p, size_t len, unsigned flags) {
    struct iovec piece = {p, len};
    while (piece.iov_len) {
        ssize_t n = vmsplice(1, &piece, 1, flags);
        if (n < 0) {
            if (errno == EAGAIN) continue;
            exit(0);
        }
        piece.iov_base = (char *)piece.iov_base + n;
        piece.iov_len -= (size_t)n;
    }
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    int splices = !strcmp(argv[2], "vmsplice") || !strcmp(argv[2], "splice");
    int spin = !strcmp(argv[3], "spin");
    int huge = !strcmp(argv[4], "huge");
    size_t buffer = strtoul(argv[5], 0, 10);
    stay_on(atoi(argv[6]));
    long long warm_up = atoll(argv[7]) * 1000000, timed = atoll(argv[8]) * 1000000;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);

    if (!strcmp(argv[1], "write")) {
        char *one = memory(buffer, huge), *two = memory(buffer, huge);
        if (spin && !splices) dont_block(1);
        unsigned flags = spin ? SPLICE_F_NONBLOCK : 0;
        for (;;) {
            if (!splices) {
                send_write(one, buffer);
            } else {
                send_vmsplice(one, buffer, flags);
                send_vmsplice(two, buffer, flags);
            }
        }
    }

    char *into = splices ? 0 : memory(buffer, huge);
    int null = open("/dev/null", O_WRONLY);
    if (spin && !splices) dont_block(0);
    unsigned flags = spin ? SPLICE_F_NONBLOCK : 0;
    unsigned long long got = 0, look_at = LOOK_EVERY, begin = 0;
    long long started = now(), t0 = 0;
    for (;;) {
        ssize_t n = splices ? splice(0, 0, null, 0, buffer, flags) : read(0, into, buffer);
        if (n < 0) {
            if (errno == EAGAIN) continue;
            die("read");
        }
        if (n == 0) return 1;
        got += (unsigned long long)n;
        if (got < look_at) continue;
        look_at = got + LOOK_EVERY;
        long long t = now();
        if (!t0 && t - started >= warm_up) {
            t0 = t;
            begin = got;
        } else if (t0 && t - t0 >= timed) {
            fprintf(stderr, "%llu %lld\n", got - begin, t - t0);
            return 0;
        }
    }
}
