package remoteexec

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/schema"
	"codex-proxy/workers/codexhome"
)

// reads are the unknown requests that pass for owners. Without a schema none does, and the remote starts nevertheless.
func (u *Unit) reads(ctx context.Context, s *remoteconfig.Settings) schema.Requests {
	if s.UnknownMethods != remoteconfig.ReadUnknown {
		return nil
	}
	program := filepath.Join(u.Runtime, "codex")
	found, err := schema.Load(ctx, program, "/proc/self/exe", filepath.Join(u.Home, managerDir),
		func(ctx context.Context, out string) error { return codexhome.WriteSchema(ctx, program, out, out) })
	if err != nil {
		u.logger.Warn("codex's schema is not kept", "remote", u.Name, "requests", len(found), "error", err)
	}
	return found
}

// proxy is the way of people to codex, which the manager follows.
func (u *Unit) proxy(manager *remotes.Manager, reads schema.Requests, of authz.Elsewhere) *authz.Proxy {
	var attached sync.Map // of a session's id to the manager's func() for its end
	return &authz.Proxy{
		Remote: u.Name, Version: u.Version, Reads: reads, Logger: u.logger, Viewers: paths.RemoteViewerSocket(u.Name),
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
		Unknown: func(s authz.Session, method string) string { return manager.Unknown(method, s.Role == authz.Viewer) },
		Failed:  func(s authz.Session, id string) { manager.RecordRefusal(requestName(s, id)) },
		Leaving: manager.AwaitSubscribed, Elsewhere: of,
	}
}

// requestName tells the requests of all sessions apart: each session has ids of its own.
func requestName(s authz.Session, id string) string { return strconv.FormatUint(s.ID, 10) + " " + id }
