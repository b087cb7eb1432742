# Freezes a file system below the directory $1, and starts a pipeline whose first two stages ($2 is
# their program) get stuck in it. Undoes all of it at the end of standard input, which comes even if
# the test is killed. Prints the stages, or why that can't be done here.
trap '' HUP INT TERM
m=$1/mounted
mkdir "$m" && truncate -s 64M "$1/image" && mkfs.ext4 -q "$1/image" > /dev/null 2>&1 || { echo no mkfs.ext4; exit; }
mount -o loop "$1/image" "$m" 2> /dev/null || { echo no loop device; exit; }
truncate -s 1M "$m/a" "$m/b" "$m/c"
if fsfreeze -f "$m" 2> /dev/null; then
    { echo $(exec sh -c 'echo $PPID') > "$1/first"; exec python3 "$2" select "$m/a"; } < /dev/null 2> /dev/null |
        { echo $(exec sh -c 'echo $PPID') > "$1/second"; exec python3 "$2" epoll "$m/b"; } 2> /dev/null |
        sleep 1000 > /dev/null &
    last=$!
    while [ ! -s "$1/first" ] || [ ! -s "$1/second" ]; do :; done
    stages="$(cat "$1/first") $(cat "$1/second") $last"
    echo $stages
    read -r _
    fsfreeze -u "$m"
    kill -9 $stages
    wait
else
    echo no fsfreeze
fi
# What a command has left there is ending.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    umount "$m" 2> /dev/null && exit
    sleep 1
done
umount -l "$m"
