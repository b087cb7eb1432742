# The child waits for room for its result: the parent waits for the child's end before it reads.
from multiprocessing import Pipe, Process


def child(connection):
    connection.send(b"x" * 10_000_000)


if __name__ == "__main__":
    own, other = Pipe()
    process = Process(target=child, args=(other,))
    process.start()
    process.join()
    print(len(own.recv()))
