"""A connection that is kept alive between requests."""
import http.client
import http.server
import os
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if os.fork() == 0:
    connection = http.client.HTTPConnection(*server.server_address)
    while True:
        connection.request("GET", "/")
        connection.getresponse().read()
        time.sleep(3)
server.serve_forever()
