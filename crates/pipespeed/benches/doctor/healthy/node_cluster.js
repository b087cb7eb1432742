// Workers that share a port on which nobody calls.
const cluster = require('cluster');
if (cluster.isPrimary) {
  cluster.fork();
  cluster.fork();
} else {
  require('http').createServer(() => {}).listen(0);
}
