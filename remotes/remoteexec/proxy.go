package remoteexec

import (
	"strconv"
	"sync"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/remoteapi"
)

// proxy is the way of people to codex, which the manager follows.
func (u *Unit) proxy(manager *remotes.Manager) *authz.Proxy {
	var attached sync.Map // of a session's id to the manager's func() for its end
	return &authz.Proxy{
		Remote: u.Name, Logger: u.logger, Viewers: paths.RemoteViewerSocket(u.Name),
		Network: paths.RemoteNetworkSocket(u.Name), Cgroup: u.Cgroup, Manager: remoteapi.Handler(manager),
		Renew: remoteapi.RenewPath,
		Attached: func(s authz.Session) {
			attached.Store(s.ID, manager.Attach(remotes.Client{User: s.User(), Viewer: s.Role == authz.Viewer}))
		},
		Detached: func(s authz.Session) {
			if detach, is := attached.LoadAndDelete(s.ID); is {
				detach.(func())()
			}
		},
		Forwarding: func(s authz.Session, r authz.Request) {
			if remotes.Recorded(r.Method) {
				manager.RecordRequest(requestName(s, r.ID), r.Method, r.Params)
			}
		},
		Failed:  func(s authz.Session, id string) { manager.RecordRefusal(requestName(s, id)) },
		Leaving: manager.AwaitSubscribed,
	}
}

// requestName tells the requests of all sessions apart: each session has ids of its own.
func requestName(s authz.Session, id string) string { return strconv.FormatUint(s.ID, 10) + " " + id }
