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

// session is attach as the leader of a terminal of its own, as under ssh.
type session struct {
	*screen
	process *os.Process
	ended   chan struct{}
}

func (b *bed) session(binary string) session {
	b.t.Helper()
	s := session{screen: newScreen(b.t), ended: make(chan struct{})}
	self, err := os.Executable()
	require.NoError(b.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "ATTACH_CODEX="+binary, "ATTACH_SOCKETS="+b.sockets)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.terminal, s.terminal, s.terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(b.t, cmd.Start())
	s.process = cmd.Process
	b.t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() { defer close(s.ended); _ = cmd.Wait() }()
	return s
}

// hangup is what the end of the terminal does: a signal to the group in the foreground.
func (s session) hangup() {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(-s.process.Pid, syscall.SIGHUP))
	select {
	case <-s.ended:
	case <-time.After(bound):
		s.t.Fatal("attach outlives its terminal")
	}
}

// A terminal that goes away, as with a dropped ssh, ends attach and the real TUI. The turn goes on, and the next attach
// shows its end.
func TestHangup(t *testing.T) {
	b := newBed(t)
	binary, socket := b.codex()
	b.serve(socket)
	b.person()
	require.NoError(t, b.model.Always("gpt-5.5", "text the beginning", "gate rest", "text and the end"))

	s := b.session(binary)
	s.wait("OpenAI Codex")
	s.ask("go ahead")
	s.wait("the beginning")
	s.hangup()
	s.wait("Back to it: codex-proxy attach build")
	_, err := b.model.Wait(t.Context(), modelserver.AtGate("rest", 1)) // the turn waits, uncut
	require.NoError(t, err)
	b.model.Release("rest")
	again, left := b.tui(binary, Attach{})
	again.wait("and the end")
	again.quit(left)
}
