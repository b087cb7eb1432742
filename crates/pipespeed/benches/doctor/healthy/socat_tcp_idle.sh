# A connection on which nobody has anything to say.
command -v socat || exit 77
port=$((20000 + $$ % 10000))
socat TCP-LISTEN:$port,bind=127.0.0.1,fork EXEC:cat &
sleep 1000 | socat - TCP:127.0.0.1:$port,retry=50,interval=0.1 | cat
