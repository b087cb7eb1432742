// Both write: cat waits for room in its output, which is read only once all input is written.
package main

import (
	"fmt"
	"io"
	"os/exec"
)

func main() {
	child := exec.Command("cat")
	input, _ := child.StdinPipe()
	output, _ := child.StdoutPipe()
	child.Start()
	input.Write(make([]byte, 10_000_000))
	input.Close()
	all, _ := io.ReadAll(output)
	fmt.Println(len(all), child.Wait())
}
