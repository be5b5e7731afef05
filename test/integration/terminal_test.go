package integration

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// terminal is a program in tmux, inside the machine.
type terminal struct {
	bed  *bed
	name string
}

// terminal starts the program; it ends with the test at the latest.
func (b *bed) terminal(name string, command ...string) *terminal {
	b.t.Helper()
	t := &terminal{b, name}
	start := append([]string{"new-session", "-d", "-s", name, "-x", "180", "-y", "60"}, command...)
	t.tmux(append(start, ";", "set-option", "remain-on-exit", "on")...) // its last words stay on the screen
	b.t.Cleanup(func() {
		if b.t.Failed() {
			screen, _, err := b.Run(context.Background(), t.args(capture...)...)
			b.t.Logf("the terminal %s: %v\n%s", name, err, screen)
		}
	})
	return t
}

// tmux runs a command of tmux on the terminal's own server, which is named like it.
func (t *terminal) tmux(args ...string) string {
	t.bed.t.Helper()
	return t.bed.MustRun(t.bed.t, t.args(args...)...)
}

func (t *terminal) args(args ...string) []string {
	return append([]string{"env", "LANG=C.UTF-8", "HOME=/root", "tmux", "-L", t.name, "-f", "/dev/null"}, args...)
}

// capture is the command for all that a terminal shows and has shown.
var capture = []string{"capture-pane", "-p", "-J", "-S", "-"}

// screen is what the terminal shows, with all that has left it.
func (t *terminal) screen() string {
	t.bed.t.Helper()
	return t.tmux(capture...)
}

// enter types a line. The program may take lines that come at once for a text that is pasted; so the key comes
// when the line is on the screen.
func (t *terminal) enter(line string) {
	t.bed.t.Helper()
	t.tmux("send-keys", "-t", t.name, "-l", line)
	t.until(line[max(0, len(line)-20):])
	t.tmux("send-keys", "-t", t.name, "Enter")
}

// until waits for a text on the screen.
func (t *terminal) until(text string) string {
	t.bed.t.Helper()
	for deadline := time.Now().Add(bound); ; pause(t.bed.t.Context(), 100*time.Millisecond) {
		screen := t.screen()
		if strings.Contains(screen, text) {
			return screen
		}
		require.True(t.bed.t, time.Now().Before(deadline), "never %q in\n%s", text, screen)
	}
}

// untilGone waits until a text is not on the screen.
func (t *terminal) untilGone(text string) {
	t.bed.t.Helper()
	for deadline := time.Now().Add(bound); ; pause(t.bed.t.Context(), 100*time.Millisecond) {
		screen := t.screen()
		if !strings.Contains(screen, text) {
			return
		}
		require.True(t.bed.t, time.Now().Before(deadline), "still %q in\n%s", text, screen)
	}
}

// process is the process of the program, which lives.
func (t *terminal) process() string {
	t.bed.t.Helper()
	return trim(t.tmux("display-message", "-p", "-t", t.name, "#{pane_pid} dead=#{pane_dead}"))
}
