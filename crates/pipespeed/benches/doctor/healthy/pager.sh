# seq waits for room, for a person at a pager.
command -v tmux && command -v less || exit 77
tmux -S socket -f /dev/null -D &
until tmux -S socket new-session -d 'seq 1000000 | less'; do sleep 0.1; done
wait
