# A coprocess that is asked for something every two seconds.
use IO::Handle;
use IPC::Open2;
open2(my $output, my $input, 'sed', '-u', 's/1/2/');
$input->autoflush(1);
while (1) { print $input "21\n"; readline $output; sleep 2 }
