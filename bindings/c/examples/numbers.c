/* Prints the numbers below a limit (default 100,000,000), as seq does: numbers 1000000 | wc -c */
#include <fastpipe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what) {
    fprintf(stderr, "numbers: %s: %s\n", what, fastpipe_error());
    return 1;
}

int main(int argc, char **argv) {
    unsigned long limit = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000000;
    fastpipe_writer *out;
    if (fastpipe_writer_open(&out, 1, NULL) < 0)
        return fail("standard output");
    for (unsigned long number = 0; number < limit;) {
        void *memory;
        size_t room, filled = 0;
        if (fastpipe_writer_lend(out, 0, &memory, &room) < 0)
            return fail("standard output");
        /* The longest line has 21 bytes. */
        for (; number < limit && room - filled >= 21; number++) {
            char digits[20];
            size_t n = 0;
            unsigned long rest = number;
            do
                digits[n++] = (char)('0' + rest % 10);
            while (rest /= 10);
            while (n > 0)
                ((char *)memory)[filled++] = digits[--n];
            ((char *)memory)[filled++] = '\n';
        }
        if (fastpipe_writer_commit(out, filled) < 0)
            return fail("standard output");
    }
    if (fastpipe_writer_finish(out) < 0)
        return fail("standard output");
    fastpipe_writer_free(out);
    return 0;
}
