# yes waits for room in the FIFO that is its standard error: cat waits for its standard output.
mkfifo output errors
sh -c 'yes >&2; echo done' >output 2>errors &
exec 3<output 4<errors
cat <&3
cat <&4
