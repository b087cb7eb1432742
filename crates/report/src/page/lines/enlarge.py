from fcntl import fcntl
# In Python 3.10 or later:
from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ

try:
    if fcntl(1, F_GETPIPE_SZ) < 1048576:
        fcntl(1, F_SETPIPE_SZ, 1048576)
except OSError:
    pass  # No pipe, or the user's limit.
