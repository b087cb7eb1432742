# Short pipelines and long pauses.
while :; do date | cat >/dev/null; sleep 0.7; done
