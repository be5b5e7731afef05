package attach

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain plays codex-proxy attach for tests that need it as a process of its own.
func TestMain(m *testing.M) {
	a := Attach{Remote: "build", Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Codex: os.Getenv("ATTACH_CODEX")}
	switch stdio := os.Getenv("ATTACH_STDIO"); {
	case stdio != "":
		a.Sockets, a.Stdio = stdio, true
	case a.Codex != "":
		a.Sockets = os.Getenv("ATTACH_SOCKETS")
	default:
		os.Exit(m.Run())
	}
	status, err := a.Run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}
