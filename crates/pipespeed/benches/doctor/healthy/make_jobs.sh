# Two of three jobs sleep, and one waits for a token of the job server.
command -v make || exit 77
printf 'all:\n\t$(MAKE) -f inner\n' >outer
printf 'all: a b c\na b c:\n\tsleep 1000\n' >inner
exec make -j2 -f outer
