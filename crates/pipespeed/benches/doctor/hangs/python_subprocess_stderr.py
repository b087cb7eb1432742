# yes waits for room in its standard error: the parent waits for the end of its standard output.
from subprocess import PIPE, Popen

child = Popen(["sh", "-c", "yes >&2; echo done"], stdout=PIPE, stderr=PIPE)
print(child.stdout.read())
