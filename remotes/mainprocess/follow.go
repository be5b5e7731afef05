package mainprocess

import (
	"strconv"
	"sync"

	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
)

// Follow has the manager follow the clients of the proxy and their requests.
func Follow(p *authz.Proxy, manager *remotes.Manager) {
	var attached sync.Map // of a session's id to the manager's func() for its end
	p.Attached = func(s authz.Session) {
		client := remotes.Client{User: s.User(), Viewer: s.Role == authz.Viewer, Program: s.Client}
		attached.Store(s.ID, manager.Attach(client))
	}
	p.Detached = func(s authz.Session) {
		if detach, is := attached.LoadAndDelete(s.ID); is {
			detach.(func())()
		}
	}
	p.Forwarding = func(s authz.Session, r authz.Request) {
		if remotes.Recorded(r.Method) {
			manager.RecordRequest(requestName(s, r.ID), r.Method, r.Params)
		}
	}
	p.Failed = func(s authz.Session, id string) { manager.RecordRefusal(requestName(s, id)) }
	p.Leaving = manager.AwaitSubscribed
}

// requestName distinguishes the requests of all sessions: each session has ids of its own.
func requestName(s authz.Session, id string) string { return strconv.FormatUint(s.ID, 10) + " " + id }
