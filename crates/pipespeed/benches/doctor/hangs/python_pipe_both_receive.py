# Both wait for the other's message.
from multiprocessing import Pipe, Process


def child(connection):
    connection.send(connection.recv())


if __name__ == "__main__":
    own, other = Pipe()
    process = Process(target=child, args=(other,))
    process.start()
    print(own.recv())
