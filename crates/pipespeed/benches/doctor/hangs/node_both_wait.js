// python3 waits for the end of the line that node has not sent; node waits for the answer.
const { spawn } = require('child_process');

const child = spawn('python3', ['-c', 'print(input(), flush=True)'], { stdio: ['pipe', 'pipe', 'inherit'] });
child.stdin.write('request');
child.stdout.on('data', (answer) => console.log(answer));
