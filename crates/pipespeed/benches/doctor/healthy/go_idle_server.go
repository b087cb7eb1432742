// A server with an idle connection to itself, and a child that waits for work.
package main

import (
	"io"
	"net"
	"os/exec"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	child := exec.Command("cat")
	if _, err := child.StdinPipe(); err != nil {
		panic(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := child.Start(); err != nil {
		panic(err)
	}
	go io.Copy(io.Discard, output)
	if _, err := net.Dial("tcp", listener.Addr().String()); err != nil {
		panic(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go io.Copy(connection, connection)
	}
}
