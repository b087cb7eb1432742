"""A server with a connection that is kept alive, and a child that waits for work."""
import asyncio
import os
import socket
import time


def client(port):
    connection = socket.create_connection(("127.0.0.1", port))
    while True:
        connection.sendall(b"ping\n")
        connection.recv(100)
        time.sleep(3)


async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    if os.fork() == 0:
        client(server.sockets[0].getsockname()[1])
    pipe = asyncio.subprocess.PIPE
    await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
    await server.serve_forever()


asyncio.run(main())
