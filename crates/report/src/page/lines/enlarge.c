#define _GNU_SOURCE  /* before all others */
#include <fcntl.h>

/* Call it once. It does nothing where
   the output is no pipe. */
static void enlarge_output(void)
{
    if (fcntl(1, F_GETPIPE_SZ) < 1048576)
        fcntl(1, F_SETPIPE_SZ, 1048576);
}
