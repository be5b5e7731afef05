package accounts

import (
	"codex-proxy/test/bed"
)

// paneProcess is the process of the program, which lives.
func paneProcess(t *bed.Terminal) string {
	t.Bed.T.Helper()
	return bed.Trim(t.Tmux("display-message", "-p", "-t", t.Name, "#{pane_pid} dead=#{pane_dead}"))
}
