package remoteexec

import (
	"context"
	"path/filepath"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/mainprocess"
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
	p := &authz.Proxy{
		Remote: u.Name, Version: u.Version, Reads: reads, Logger: u.logger, Viewers: paths.RemoteViewerSocket(u.Name),
		Network: paths.RemoteNetworkSocket(u.Name), Cgroup: u.Cgroup, Manager: remoteapi.Handler(manager),
		Renew: remoteapi.RenewPath, Send: remoteapi.SendPath,
		Unknown:   func(s authz.Session, method string) string { return manager.Unknown(method, s.Role == authz.Viewer) },
		Elsewhere: of,
	}
	mainprocess.Follow(p, manager)
	return p
}
