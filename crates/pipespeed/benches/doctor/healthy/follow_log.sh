# A log that grows by a line a second, or not at all.
touch log
(while :; do echo line; sleep 1; done) >log &
tail -f log | grep --line-buffered line | tee copy | grep nothing
