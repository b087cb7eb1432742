# seq waits for room, for a person at a pager.
command -v tmux && command -v less || exit 77
tmux -S socket -f /dev/null -D &
# -N: only that server, which is this script's child.
until tmux -N -S socket new-session -d 'seq 1000000 | less'; do sleep 0.1; done
wait
