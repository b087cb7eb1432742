// Prints the numbers below a limit, as seq does: numbers 1000000 | wc -c
//
// Where libfastpipe is installed, `go build` finds it by pkg-config.
package main

// #cgo LDFLAGS: -lfastpipe
// #include <fastpipe.h>
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"
)

func check(result C.int) {
	if result < 0 {
		fmt.Fprintln(os.Stderr, "numbers:", C.GoString(C.fastpipe_error()))
		os.Exit(1)
	}
}

func main() {
	// The message of an error is kept in the thread.
	runtime.LockOSThread()
	limit := 100_000_000
	if len(os.Args) > 1 {
		limit, _ = strconv.Atoi(os.Args[1])
	}
	var out *C.fastpipe_writer
	check(C.fastpipe_writer_open(&out, 1, nil))
	for number := 0; number < limit; {
		var memory unsafe.Pointer
		var room C.size_t
		check(C.fastpipe_writer_lend(out, 0, &memory, &room))
		lent := unsafe.Slice((*byte)(memory), int(room))
		filled := lent[:0]
		// The longest line has 21 bytes.
		for ; number < limit && cap(filled)-len(filled) >= 21; number++ {
			filled = append(strconv.AppendInt(filled, int64(number), 10), '\n')
		}
		check(C.fastpipe_writer_commit(out, C.size_t(len(filled))))
	}
	check(C.fastpipe_writer_finish(out))
	C.fastpipe_writer_free(out)
}
