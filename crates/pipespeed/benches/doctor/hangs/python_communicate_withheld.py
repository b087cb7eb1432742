# The end of the output is withheld by sleep, in the background.
from subprocess import PIPE, Popen

child = Popen(["sh", "-c", "sleep 1000 & echo started"], stdout=PIPE, stderr=PIPE)
print(child.communicate())
