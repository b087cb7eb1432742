# yes waits for room in its terminal, whose master the parent does not read before the end of yes.
import os
from subprocess import Popen

master, terminal = os.openpty()
child = Popen(["yes"], stdin=terminal, stdout=terminal)
os.close(terminal)
child.wait()
print(os.read(master, 100))
