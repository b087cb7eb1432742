"""A writer that mostly waits for room, and a reader that takes a little every 0.2 s."""
import os
import socket
import time

ours, theirs = socket.socketpair()
if os.fork() == 0:
    ours.close()
    while theirs.recv(20000):
        time.sleep(0.2)
theirs.close()
while True:
    ours.sendall(b"x" * 100000)
