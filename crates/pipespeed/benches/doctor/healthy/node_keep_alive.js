// A server and a client with an idle connection, and the channel between both.
const { fork } = require('child_process');
const http = require('http');
if (process.argv[2]) {
  const agent = new http.Agent({ keepAlive: true });
  const ask = () => http.get({ port: process.argv[2], agent }, (answer) => answer.resume());
  setInterval(ask, 3000);
} else {
  const server = http.createServer((_, answer) => answer.end('ok'));
  server.listen(0, () => fork(__filename, [String(server.address().port)]));
}
