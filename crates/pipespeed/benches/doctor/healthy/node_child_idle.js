// A child whose standard input stays open, and that has nothing to do.
require('child_process').spawn('cat').stdout.on('data', () => {});
