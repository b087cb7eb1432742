import fcntl

try:
    fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1048576)     # Python 3.10 or later
except OSError:
    pass                                            # the output is no pipe
out = open(1, "wb", buffering=65536, closefd=False)
