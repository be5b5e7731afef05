// Command codex-proxy-remote-init runs the codex of a remote within its namespaces: the first process of the namespaces
// that remote-exec starts codex in. It hides the files of others there, drops its rights, and runs the command, with
// which it ends. It is a program of its own, as every remote keeps a process of it: initialised data stays in its
// memory.
package main

import (
	"fmt"
	"os"

	"codex-proxy/remotes/namespaces"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run returns the exit status of the command.
func run(args []string) int {
	const usage, exec = 64, 203 // EX_USAGE of sysexits.h, EXIT_EXEC of systemd.exec(5)
	if len(args) < 3 || args[1] != "--" {
		fmt.Fprintln(os.Stderr, "codex-proxy-remote-init: this is a program for codex-proxy remote-exec; "+
			"systemctl cat codex-remote@.service shows how that is run")
		return usage
	}
	status, err := namespaces.Init(args[0], args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "codex-proxy-remote-init:", err)
		return exec
	}
	return status
}
