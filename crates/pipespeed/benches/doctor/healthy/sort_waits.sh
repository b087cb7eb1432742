# sort prints nothing before the end.
(while :; do echo line; sleep 0.3; done) | sort | uniq -c | wc -l
