// The end of the output is withheld by sleep, in the background.
package main

import (
	"fmt"
	"os/exec"
)

func main() {
	output, err := exec.Command("sh", "-c", "sleep 1000 & echo started").Output()
	fmt.Println(string(output), err)
}
