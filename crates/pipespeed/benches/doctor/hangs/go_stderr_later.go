// yes waits for room in its standard error: the standard output is read to its end first.
package main

import (
	"fmt"
	"io"
	"os/exec"
)

func main() {
	child := exec.Command("sh", "-c", "yes >&2; echo done")
	errors, _ := child.StderrPipe()
	output, _ := child.StdoutPipe()
	child.Start()
	all, _ := io.ReadAll(output)
	rest, _ := io.ReadAll(errors)
	fmt.Println(len(all), len(rest), child.Wait())
}
