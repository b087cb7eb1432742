"""Starts commands for sh, each joined with the next by a socket: `joined.py unix|tcp COMMAND...`."""
import socket
import subprocess
import sys

listener = socket.create_server(("127.0.0.1", 0))


def connect():
    if sys.argv[1] == "unix":
        return socket.socketpair()
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]


stages = []
source = None
for at, command in enumerate(sys.argv[2:], 3):
    out, following = (None, None) if at == len(sys.argv) else connect()
    stages.append(subprocess.Popen(["sh", "-c", command], stdin=source, stdout=out))
    for end in (source, out):
        if end:
            end.close()
    source = following
for stage in stages:
    stage.wait()
