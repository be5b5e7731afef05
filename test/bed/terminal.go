package bed

import (
	"context"
	"strings"
	"time"

	"codex-proxy/test/await"

	"github.com/stretchr/testify/require"
)

// Terminal is a program in tmux, inside the machine.
type Terminal struct {
	Bed  *Bed
	Name string
}

// NewTerminal starts the program; it ends with the test at the latest.
func NewTerminal(b *Bed, name string, command ...string) *Terminal {
	b.T.Helper()
	t := &Terminal{b, name}
	start := append([]string{"new-session", "-d", "-s", name, "-x", "180", "-y", "60"}, command...)
	t.Tmux(append(start, ";", "set-option", "remain-on-exit", "on")...) // its last words stay on the screen
	b.T.Cleanup(func() {
		if b.T.Failed() {
			screen, _, err := b.Run(context.Background(), t.args(capture...)...)
			b.T.Logf("the terminal %s: %v\n%s", name, err, screen)
		}
	})
	return t
}

// Tmux runs a command of tmux on the terminal's own server, which is named like it.
func (t *Terminal) Tmux(args ...string) string {
	t.Bed.T.Helper()
	return t.Bed.MustRun(t.Bed.T, t.args(args...)...)
}

func (t *Terminal) args(args ...string) []string {
	return append([]string{"env", "LANG=C.UTF-8", "HOME=/root", "tmux", "-L", t.Name, "-f", "/dev/null"}, args...)
}

// capture is the command for all that a terminal shows and has shown.
var capture = []string{"capture-pane", "-p", "-J", "-S", "-"}

// Screen is what the terminal shows, with all that has left it.
func (t *Terminal) Screen() string {
	t.Bed.T.Helper()
	return t.Tmux(capture...)
}

// Enter types a line. The program may take lines that come at once for a text that is pasted; so the key comes
// when the line is on the screen.
func (t *Terminal) Enter(line string) {
	t.Bed.T.Helper()
	t.Tmux("send-keys", "-t", t.Name, "-l", line)
	t.Until(line[max(0, len(line)-20):])
	t.Tmux("send-keys", "-t", t.Name, "Enter")
}

// Until waits for a text on the screen.
func (t *Terminal) Until(text string) string {
	t.Bed.T.Helper()
	for deadline, pace := time.Now().Add(Bound), (await.Pace{}); ; pace.Pause(t.Bed.T.Context()) {
		screen := t.Screen()
		if strings.Contains(screen, text) {
			return screen
		}
		require.True(t.Bed.T, time.Now().Before(deadline), "never %q in\n%s", text, screen)
	}
}
