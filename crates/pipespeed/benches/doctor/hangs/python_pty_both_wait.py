# The parent waits for a prompt, and its child for an answer to another one.
import os
import select
from subprocess import Popen

master, terminal = os.openpty()
Popen(["sh", "-c", "printf 'User: '; read user; echo $user"], stdin=terminal, stdout=terminal, stderr=terminal)
os.close(terminal)
output = b""
while not output.endswith(b"login: "):
    if select.select([master], [], [], 30)[0]:
        output += os.read(master, 100)
os.write(master, b"root\n")
