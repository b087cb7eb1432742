# Two jobs at once, and a producer that is not in a hurry.
(while :; do echo 1; sleep 0.8; done) | xargs -n 1 -P 2 sleep
