# A stage that sends its input to a server which accepts nobody at the moment.
command -v python3 || exit 77
python3 -c "
import os, socket, time
server = socket.create_server(('127.0.0.1', 0), backlog=0)
waiting = [socket.socket() for _ in range(4)]
for client in waiting:
    client.setblocking(False)
    client.connect_ex(server.getsockname())
open('port.new', 'w').write(str(server.getsockname()[1]))
os.rename('port.new', 'port')
time.sleep(1000)
" &
until [ -f port ]; do sleep 0.1; done
tar cf - /usr/share | python3 -c "
import shutil, socket, sys
server = socket.create_connection(('127.0.0.1', int(open('port').read())))
shutil.copyfileobj(sys.stdin.buffer, server.makefile('wb'))
"
