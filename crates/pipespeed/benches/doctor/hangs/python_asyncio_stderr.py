# yes waits for room in its standard error: the parent waits for a line of its standard output.
import asyncio
from asyncio.subprocess import PIPE


async def main():
    child = await asyncio.create_subprocess_exec("sh", "-c", "yes >&2; echo done", stdout=PIPE, stderr=PIPE)
    print(await child.stdout.readline())


asyncio.run(main())
