// Launches runs a program as footfall does, stopped at first.
package main

import (
	"fmt"
	"os"
	"os/exec"

	"footfall/process"
)

func main() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout = os.Stdout
	err := process.StartStopped(cmd, func(int) error { return nil })
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
