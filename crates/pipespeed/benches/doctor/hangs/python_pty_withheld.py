# The end of the terminal's output is withheld by sleep, in the background.
import os
from subprocess import DEVNULL, Popen

master, terminal = os.openpty()
Popen(["sh", "-c", "sleep 1000 & echo started"], stdin=DEVNULL, stdout=terminal, stderr=terminal)
os.close(terminal)
try:
    while output := os.read(master, 100):
        print(output)
except OSError:
    print("the end")
