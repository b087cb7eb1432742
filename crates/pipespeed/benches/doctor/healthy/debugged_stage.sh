# Somebody looks at a stage with a debugger.
command -v gdb || exit 77
yes | gzip | gdb -q -nx -batch -ex 'catch syscall read' -ex run -ex 'shell sleep 1000' cat
