package main

// Names of the package's units and files.
const (
	target        = "codex.target"
	runner        = "codex-runner.service"
	ourUnits      = "codex-*"
	address       = "127.0.0.1:8787"
	workerUnit    = "codex-worker@default.service"
	workerFile    = "/etc/codex-proxy/workers/default.toml"
	workerHome    = "/var/lib/codex-worker/default"
	workerDropIn  = "/etc/systemd/system/" + workerUnit + ".d/50-try.conf"
	ownerUser     = "/etc/sysusers.d/50-try.conf"
	codexInside   = "/opt/codex"           // out of reach of ProtectHome= and PrivateTmp=
	hostCodexHome = "/run/host/codex-home" // the user's own, with the login
)

// installed are directories of packages installed on this host: the throwaway ones
// must see neither their settings nor their logins.
var installed = []string{
	"/etc/codex-proxy", "/var/lib/codex-worker", "/var/lib/private/codex-worker", "/var/lib/codex-proxy",
	"/etc/codex-runner", "/var/lib/codex-runner", "/var/lib/codex-workspace", "/var/lib/codex-session",
	"/var/lib/private/codex-session",
}
