#include <errno.h>
#include <unistd.h>

/* Returns 0, or -1 with errno set. The
   output must be blocking. After printf,
   call fflush(stdout) first. */
static int write_all(const char *data,
                     size_t length)
{
    while (length > 0) {
        size_t piece = 65536;
        if (piece > length)
            piece = length;
        ssize_t n = write(1, data, piece);
        if (n >= 0) {
            data += n;
            length -= (size_t)n;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}
