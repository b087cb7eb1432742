// The event 'close' waits for the end of the output, which sleep holds in the background.
const { exec } = require('child_process');

exec('sleep 1000 & echo started', (error, output) => console.log(output));
