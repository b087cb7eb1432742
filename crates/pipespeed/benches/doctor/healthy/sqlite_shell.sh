# A query a second.
command -v sqlite3 || exit 77
(while :; do echo 'select 1;'; sleep 1; done) | sqlite3 database | cat
