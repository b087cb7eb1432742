# A stage asks a server about each line, and waits for its answers.
command -v python3 || exit 77
python3 -c "
import http.server, os, time
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        time.sleep(0.3)
        self.send_response(200)
        self.send_header('Content-Length', '3')
        self.end_headers()
        self.wfile.write(b'ok\n')
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)
open('port.new', 'w').write(str(server.server_port))
os.rename('port.new', 'port')
server.serve_forever()
" &
until [ -f port ]; do sleep 0.1; done
seq 1000000 | python3 -c "
import http.client, sys
server = http.client.HTTPConnection('127.0.0.1', int(open('port').read()))
for line in sys.stdin:
    server.request('GET', '/' + line.strip())
    print(server.getresponse().read().decode(), end='', flush=True)
" | uniq -c
