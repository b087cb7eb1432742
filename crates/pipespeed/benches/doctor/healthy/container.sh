# An idle shell in a PID namespace.
unshare -r -p -f true || exit 77
sleep 1000 | unshare -r -p -f --kill-child sh | cat
