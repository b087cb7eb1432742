# An idle service in a network namespace.
unshare -r -n true && command -v python3 || exit 77
exec unshare -r -n python3 -c "
import os, socket
a, b = socket.socketpair()
if os.fork() == 0:
    a.close()
    while data := b.recv(100):
        b.sendall(data)
b.close()
os.read(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY), 1)
"
