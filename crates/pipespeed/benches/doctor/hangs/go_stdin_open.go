// cat waits for the end of its input, which is not closed before the wait for cat.
package main

import (
	"fmt"
	"os/exec"
)

func main() {
	child := exec.Command("cat")
	input, _ := child.StdinPipe()
	child.Start()
	input.Write([]byte("line\n"))
	state, _ := child.Process.Wait()
	fmt.Println(state)
	input.Close()
}
