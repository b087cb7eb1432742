"""Each thread reads what its child prints from time to time."""
import subprocess
from concurrent.futures import ThreadPoolExecutor

SCRIPT = "while :; do echo line; sleep 1; done"


def read(_):
    with subprocess.Popen(["sh", "-c", SCRIPT], stdout=subprocess.PIPE) as child:
        for _ in child.stdout:
            pass


with ThreadPoolExecutor(3) as pool:
    list(pool.map(read, range(3)))
