// yes waits for room in the socket that is its standard error: node has paused it.
const { spawn } = require('child_process');

const child = spawn('sh', ['-c', 'yes >&2; echo done']);
child.stderr.pause();
child.stdout.on('data', () => {});
child.on('exit', () => console.log('done'));
