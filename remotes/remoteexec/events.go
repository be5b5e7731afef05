package remoteexec

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/hands"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remotenotify"
)

// options returns the options of the manager.
func (u *Unit) options(s *remoteconfig.Settings, socket string, accounts remotes.Accounts,
	held *hands.Hands) remotes.Options {
	o := remotes.Options{
		Name: u.Name, Socket: socket, State: filepath.Join(u.Home, managerDir), Home: u.Home, Version: u.Version,
		Continue: s.Continue, Limit: s.ContinueLimit, IdleStop: s.IdleStop,
		Accounts: accounts, Restart: func() error { return unix.Kill(unix.Getpid(), unix.SIGTERM) },
		Notify: func(e remotes.Event) { u.notify(s, e) }, Logger: u.logger,
	}
	if held != nil {
		o.Hands = held
	}
	return o
}

// notify sends an event to the command of [notify], and to browsers, if no person is there to see it.
func (u *Unit) notify(s *remoteconfig.Settings, e remotes.Event) {
	notice, is := remotenotify.Of(u.Name, e)
	if !is {
		return
	}
	lost := func(message string, err error) {
		if err != nil {
			u.logger.Warn(message, "error", err, "remote", u.Name, "event", notice.Event, "thread_id", notice.Thread,
				"turn_id", notice.Turn)
		}
	}
	if len(s.Notify) > 0 {
		lost("a notice for the command of [notify] is lost",
			remotenotify.Send(paths.RemoteNotifySocket(u.Name), notice))
	}
	if s.Push {
		lost("a notice for browsers is lost", remotenotify.Push(paths.PushSocket, notice))
	}
}
