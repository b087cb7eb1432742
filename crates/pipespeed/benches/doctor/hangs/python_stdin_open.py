# cat waits for the end of its input, which the parent has not closed before it waits for cat.
from subprocess import PIPE, Popen

child = Popen(["cat"], stdin=PIPE)
child.stdin.write(b"line\n")
child.stdin.flush()
child.wait()
