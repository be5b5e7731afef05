package attach

import (
	"path/filepath"
	"testing"
	"time"

	"codex-proxy/codex/versions"
	"codex-proxy/test/codexes"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type ending struct {
	status int
	err    error
}

// tui attaches the real TUI, in a terminal of its own.
func (b *bed) tui(binary string, a Attach) (*screen, <-chan ending) {
	b.t.Helper()
	s := newScreen(b.t)
	a.Remote, a.Sockets, a.Codex = "build", b.sockets, binary
	a.Stdin, a.Stdout, a.Stderr = s.terminal, s.terminal, s.terminal
	ended := make(chan ending, 1)
	go func() {
		status, err := a.Run(b.t.Context())
		ended <- ending{status, err}
	}()
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("on the screen: %.4000s", s.shown())
		}
	})
	return s, ended
}

// quit leaves the TUI.
func (s *screen) quit(ended <-chan ending) {
	s.t.Helper()
	s.ask("/quit")
	select {
	case e := <-ended:
		require.NoError(s.t, e.err)
		assert.Zero(s.t, e.status)
	case <-time.After(bound):
		s.t.Fatal("the TUI does not end")
	}
}

// The TUI of each codex that remotes take attaches to its app-server.
func TestOlderCodexes(t *testing.T) {
	codexes.Older(t, versions.OldestForRemotes, map[string]func(*testing.T){
		"the real TUI": TestTheRealTUI, "approvals come back": TestApprovalsComeBack,
	})
}

// The real TUI: a first thread, the way back, the same conversation again, and a viewer of it.
func TestTheRealTUI(t *testing.T) {
	b := newBed(t)
	binary, socket := b.codex()
	b.serve(socket)
	b.person()
	require.NoError(t, b.model.Always("gpt-5.5", "text the model has spoken"))

	began := time.Now()
	s, ended := b.tui(binary, Attach{})
	s.wait("OpenAI Codex")
	t.Logf("first paint after %v", time.Since(began))
	s.ask("say hi")
	s.wait("the model has spoken")
	require.NotEmpty(t, b.lastThread())
	s.quit(ended)
	s.wait("Back to it: codex-proxy attach build")

	again, ended := b.tui(binary, Attach{})
	again.wait("the model has spoken")
	again.quit(ended)

	viewer, ended := b.tui(binary, Attach{ReadOnly: true})
	viewer.wait("the model has spoken")
	viewer.ask("do it")
	viewer.wait("only reads")
	viewer.typed("\x03") // the draft is back: clear it
	viewer.quit(ended)
	viewer.wait("Back to it: codex-proxy attach --read-only build")
}

// person is a person's home, in which the TUI has asked its first questions.
func (b *bed) person() {
	b.t.Helper()
	home := filepath.Join(b.homes, "person")
	b.home(home, `
check_for_update_on_startup = false
projects."/".trust_level = "trusted"
[tui]
screen_reader_detection_done = true
[tui.model_availability_nux]
"gpt-6.1-sol" = 1
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
`)
	b.t.Setenv("CODEX_HOME", home)
	b.t.Setenv("HOME", home)
	b.t.Setenv("TERM", "xterm-256color")
	b.t.Chdir("/")
}
