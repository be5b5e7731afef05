package attach

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/modelserver"
)

// A terminal that goes away, as with a dropped ssh, ends attach and the real TUI. The turn goes on, and the next attach
// shows its end.
func TestHangup(t *testing.T) {
	b := newBed(t)
	binary, socket := b.codex()
	b.serve(socket)
	b.person()
	require.NoError(t, b.model.Script("text the beginning", "gate rest", "text and the end"))

	s := newScreen(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "ATTACH_CODEX="+binary, "ATTACH_SOCKETS="+b.sockets)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.terminal, s.terminal, s.terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	s.wait("OpenAI Codex")
	s.typed("go ahead")
	s.wait("go ahead")
	time.Sleep(300 * time.Millisecond) //nolint:forbidigo // as in quit
	s.typed("\r")
	s.wait("the beginning")

	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP)) // to the group in the foreground, as a hangup does
	select {
	case <-ended:
	case <-time.After(bound):
		t.Fatal("attach outlives its terminal")
	}
	_, err = b.model.Wait(t.Context(), modelserver.AtGate("rest", 1)) // the turn waits, uncut
	require.NoError(t, err)
	b.model.Release("rest")
	again, left := b.tui(binary, Attach{})
	again.wait("and the end")
	again.quit(left)
}
