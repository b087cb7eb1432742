# A line a second through a unix socket to a server that answers.
command -v socat || exit 77
socat UNIX-LISTEN:socket,fork EXEC:cat &
until [ -S socket ]; do sleep 0.1; done
(while :; do echo line; sleep 1; done) | socat - UNIX-CONNECT:socket | cat
