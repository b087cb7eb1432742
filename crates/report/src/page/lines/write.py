import os

def write_all(data):
    data = memoryview(data)
    while data:
        data = data[os.write(1, data[:65536]):]
