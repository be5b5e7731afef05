package runner

import (
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// settled reports whether an earlier command of a session has made its workspace, so that the nth takes it as it is.
func (r *Runner) settled(id string, number int) bool {
	for n := number - 1; n > 0; n-- {
		result, err := read(r.file(id, n, paths.Result), session.ReadResult)
		if err == nil && result != nil {
			return result.HasWorkspace()
		}
		ended, err := read(r.file(id, n, paths.Ended), session.ReadEnded)
		if err != nil || ended != nil {
			// A main process without a result was killed, by its command as a rule.
			return ended != nil && ended.Refusal == "" && ended.ExitCode != ""
		}
	}
	return false
}
