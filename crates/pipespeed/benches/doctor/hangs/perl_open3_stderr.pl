# yes waits for room in its standard error: the standard output is read first.
use strict;
use IPC::Open3;
use Symbol 'gensym';

my $errors = gensym;
my $child = open3(my $input, my $output, $errors, 'sh', '-c', 'yes >&2; echo done');
print while <$output>;
print while <$errors>;
waitpid $child, 0;
