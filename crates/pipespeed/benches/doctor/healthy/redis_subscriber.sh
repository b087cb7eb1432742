# A client that waits for messages.
command -v redis-server && command -v redis-cli || exit 77
redis-server --port 0 --unixsocket socket --save '' --daemonize no &
until [ -S socket ]; do sleep 0.1; done
exec redis-cli -s socket subscribe news | cat
