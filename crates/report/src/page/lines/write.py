import os

def write_all(data):
    # After print, call sys.stdout.flush() first.
    data = memoryview(data).cast("B")
    while data:
        data = data[os.write(1, data[:65536]):]
