#define _GNU_SOURCE                     /* above every #include */
#include <fcntl.h>
#include <stdio.h>

static void enlarge_output(void)        /* call it before the first output */
{
    static char buffer[65536];
    fcntl(1, F_SETPIPE_SZ, 1048576);    /* fails where the output is no pipe: no harm */
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}
