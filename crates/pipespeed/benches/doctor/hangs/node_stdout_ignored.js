// yes waits for room in the socket that is its standard output: nobody listens to its data.
const { spawn } = require('child_process');

const child = spawn('yes', [], { stdio: ['ignore', 'pipe', 'inherit'] });
child.on('exit', () => console.log('done'));
