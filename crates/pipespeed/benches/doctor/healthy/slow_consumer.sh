# The writer mostly waits for room, and is read from every second.
yes | (while head -c 10000 >/dev/null; do sleep 1; done)
