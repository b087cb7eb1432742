/* A ring of bytes in shared memory and nothing else: no checks, no peer that
   dies, no stranger. The yardstick for fastpipe::ring.

   ring produce|consume place|copy WAIT PIECE CAPACITY CPU WARM_UP_MS TIMED_MS
   WAIT: block, spin    The memory (a page and CAPACITY) is standard input.

   The consumer prints the bytes and the nanoseconds of its timed part. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_EVERY (1u << 20)

struct line {
    _Alignas(128) _Atomic uint64_t index;
    _Atomic uint32_t asleep;
};

struct header {
    struct line head, tail;
};

static int blocks;

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

static void move_to(struct line *mine, struct line *theirs, uint64_t to) {
    atomic_store_explicit(&mine->index, to, memory_order_release);
    if (!blocks) return;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&theirs->asleep, memory_order_relaxed)) {
        atomic_store_explicit(&theirs->asleep, 0, memory_order_relaxed);
        syscall(SYS_futex, &theirs->asleep, FUTEX_WAKE, INT_MAX, 0, 0, 0);
    }
}

/* The peer's index, once it is `from` or has come closer to it. */
static uint64_t wait_for(struct line *mine, struct line *theirs, uint64_t least) {
    for (;;) {
        uint64_t at = atomic_load_explicit(&theirs->index, memory_order_acquire);
        if ((int64_t)(at - least) >= 0) return at;
        if (!blocks) {
#if defined __x86_64__
            __builtin_ia32_pause();
#endif
            continue;
        }
        atomic_store_explicit(&mine->asleep, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        at = atomic_load_explicit(&theirs->index, memory_order_acquire);
        if ((int64_t)(at - least) < 0)
            syscall(SYS_futex, &mine->asleep, FUTEX_WAIT, 1, 0, 0, 0);
        atomic_store_explicit(&mine->asleep, 0, memory_order_relaxed);
    }
}

/* Four vectors at a time, as `sum` of end.rs: what is compared is rings, not
   compilers. The pieces are multiples of 64 bytes. */
static uint64_t sum(const void *from, size_t len) {
    const uint64_t *words = from;
    uint64_t s[8] = {0};
    for (size_t n = 0; n < len / 8; n += 8)
        for (size_t k = 0; k < 8; k++) s[k] += words[n + k];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    int copies = !strcmp(argv[2], "copy");
    blocks = !strcmp(argv[3], "block");
    size_t piece = strtoul(argv[4], 0, 10), capacity = strtoul(argv[5], 0, 10);
    stay_on(atoi(argv[6]));
    long long warm_up = atoll(argv[7]) * 1000000, timed = atoll(argv[8]) * 1000000;
    prctl(PR_SET_PDEATHSIG, SIGKILL);

    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *base = mmap(0, page + capacity, PROT_READ | PROT_WRITE, MAP_SHARED, 0, 0);
    if (base == MAP_FAILED) die("mmap");
    struct header *header = (struct header *)base;
    char *data = base + page;
    char *own = aligned_alloc(4096, piece);
    if (!own) die("memory");
    uint64_t mine = 0, theirs = 0;

    if (!strcmp(argv[1], "produce")) {
        for (unsigned char value = 0;; value++) {
            if (mine + piece - theirs > capacity)
                theirs = wait_for(&header->head, &header->tail, mine + piece - capacity);
            char *at = data + mine % capacity;
            if (copies) {
                memset(own, value, piece);
                memcpy(at, own, piece);
            } else {
                memset(at, value, piece);
            }
            mine += piece;
            move_to(&header->head, &header->tail, mine);
        }
    }

    uint64_t look_at = LOOK_EVERY, begin = 0;
    volatile uint64_t total = 0;
    long long started = now(), t0 = 0;
    for (;;) {
        if (theirs - mine < piece)
            theirs = wait_for(&header->tail, &header->head, mine + piece);
        char *at = data + mine % capacity;
        if (copies) {
            memcpy(own, at, piece);
            total += sum(own, piece);
        } else {
            total += sum(at, piece);
        }
        mine += piece;
        move_to(&header->tail, &header->head, mine);
        if (mine < look_at) continue;
        look_at = mine + LOOK_EVERY;
        long long t = now();
        if (!t0 && t - started >= warm_up) {
            t0 = t;
            begin = mine;
        } else if (t0 && t - t0 >= timed) {
            printf("%llu %lld\n", (unsigned long long)(mine - begin), t - t0);
            return 0;
        }
    }
}
