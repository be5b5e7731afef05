package remoteexec

import (
	"sync"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/proxy/remotes"
	"codex-proxy/proxy/remotes/gate"
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
		Passing: func(_ gate.Session, r gate.Request) {
			if remotes.Watched(r.Method) {
				keeper.Passing(r.Method, r.Params)
			}
		},
	}
}
