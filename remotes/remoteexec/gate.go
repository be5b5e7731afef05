package remoteexec

import (
	"strconv"
	"sync"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/gate"
)

// gate is the way of people to codex, which the keeper follows.
func (u *Unit) gate(keeper *remotes.Keeper) *gate.Gate {
	var attached sync.Map // of a session's id to the keeper's func() for its end
	return &gate.Gate{
		Remote: u.Name, Logger: u.logger, Viewers: paths.RemoteViewerSocket(u.Name),
		Network: paths.RemoteNetworkSocket(u.Name), Cgroup: u.Cgroup, Keeper: keeper.Handler(),
		Attached: func(s gate.Session) {
			attached.Store(s.ID, keeper.Attach(remotes.Client{User: s.User(), Viewer: s.Role == gate.Viewer}))
		},
		Detached: func(s gate.Session) {
			if detach, is := attached.LoadAndDelete(s.ID); is {
				detach.(func())()
			}
		},
		Passing: func(s gate.Session, r gate.Request) {
			if remotes.Watched(r.Method) {
				keeper.Passing(requestName(s, r.ID), r.Method, r.Params)
			}
		},
		Failed:  func(s gate.Session, id string) { keeper.Refused(requestName(s, id)) },
		Leaving: keeper.Followed,
	}
}

// requestName tells the requests of all sessions apart: each session has ids of its own.
func requestName(s gate.Session, id string) string { return strconv.FormatUint(s.ID, 10) + " " + id }
