package config

import "codex-proxy/internal/paths"

// Socket returns the path of the control socket on which the daemon listens.
func (p Places) Socket() string { return paths.FindControlSocket("/", p.ControlSocket) }
