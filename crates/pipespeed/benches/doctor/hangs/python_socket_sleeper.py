# The child takes nothing of what the parent sends: it sleeps.
import os
import socket
import time

own, other = socket.socketpair()
if os.fork() == 0:
    own.close()
    time.sleep(1000)
other.close()
own.sendall(b"x" * 10_000_000)
