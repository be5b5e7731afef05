package mainprocess

import (
	"syscall"

	"codex-proxy/internal/cli"
	"codex-proxy/notify"
	"codex-proxy/remotes"
)

// ExitResting is the exit status of a main process that has stopped codex because nobody uses it. The units name it in
// RestartPreventExitStatus= and SuccessExitStatus=. systemd.exec(5) leaves 150 to 199 to applications.
const ExitResting = 150

// End is the exit status after the end of codex.
func End(status syscall.WaitStatus, manager *remotes.Manager) error {
	select {
	case <-manager.Resting():
		if status.Exited() && status.ExitStatus() == 0 || status.Signaled() && status.Signal() == syscall.SIGHUP {
			return cli.Exit(ExitResting, nil)
		}
	default:
	}
	return cli.Exit(notify.Exit(status), nil)
}
