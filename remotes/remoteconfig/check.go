package remoteconfig

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
	"codex-proxy/units"
)

// Bounds of lists and texts.
const (
	maxItems     = 64
	maxTasks     = 1 << 20
	maxContinues = 100
	longestIdle  = 30 * 24 * time.Hour
)

func (s *Settings) check() error {
	for _, check := range []func() error{s.checkDescription, s.checkUser, s.checkDirectories, s.checkChoices,
		s.Limits.check, s.checkTurns, s.checkAccounts, s.checkProvider, s.checkNotify, s.checkCodex} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Settings) checkDescription() error { return settingsfile.CheckDescription(s.Description) }

func (s *Settings) checkUser() error {
	err := settingsfile.CheckUser(s.User,
		"a remote does not run as root: to attach is to have a shell of its user; name "+
			"a user without privileges, or leave user empty for one of its own")
	if err != nil {
		return err
	}
	if s.Group != "" && !settingsfile.AccountName(s.Group) {
		return settingsfile.Wrong("group",
			"%q is not the name of a group; empty: root and the user of the remote alone may attach",
			s.Group)
	}
	return nil
}

func (s *Settings) checkChoices() error {
	switch s.Network {
	case NoNetwork, Loopback, AllOfIt:
	default:
		return settingsfile.Wrong("network", `%q is unknown: choose "none", "loopback" or "all"`, s.Network)
	}
	if s.UnknownMethods != RefuseUnknown && s.UnknownMethods != ReadUnknown {
		return settingsfile.Wrong("unknown_methods", `%q is unknown: choose "refuse" or "read"`, s.UnknownMethods)
	}
	switch s.Sandbox {
	case WorkspaceWrite:
	case ReadOnly:
		if len(s.Writable) > 0 {
			return settingsfile.Wrong("writable",
				`nothing is writable with sandbox = "read-only": remove it, or set sandbox = `+
					`"workspace-write"`)
		}
	case "danger-full-access":
		return settingsfile.Wrong("sandbox",
			`"danger-full-access" is not possible for a remote: choose "workspace-write", and name `+
				`further directories in writable`)
	default:
		return settingsfile.Wrong("sandbox", `%q is unknown: choose "read-only" or "workspace-write"`, s.Sandbox)
	}
	return nil
}

var (
	size    = lazyregexp.New(`^[1-9][0-9]*[KMGT]?$`)
	percent = lazyregexp.New(`^[1-9][0-9]{0,5}%$`)
)

func (l Limits) check() error {
	switch {
	case l.Memory != "" && !size.MatchString(l.Memory) && !percent.MatchString(l.Memory):
		return settingsfile.Wrong("memory",
			`%q is not a size such as "4G", nor a part of the machine's memory such as "50%%"`,
			l.Memory)
	case l.CPU != "" && !percent.MatchString(l.CPU):
		return settingsfile.Wrong("cpu", `%q is not a part of one CPU such as "50%%" or "200%%"`, l.CPU)
	case l.Tasks < 0 || l.Tasks > maxTasks || l.Tasks > 0 && l.Tasks < 32:
		return settingsfile.Wrong("tasks",
			"%d must be between 32 and %d: codex alone has some 20 threads; without it systemd sets "+
				"the limit", l.Tasks, maxTasks)
	}
	return nil
}

func (s *Settings) checkTurns() error {
	switch s.Continue {
	case Always, Ask, Never:
	default:
		return settingsfile.Wrong("continue", `%q is unknown: choose "always", "ask" or "never"`, s.Continue)
	}
	if s.ContinueLimit < 1 || s.ContinueLimit > maxContinues {
		return settingsfile.Wrong("continue_limit", `%d must be between 1 and %d; continue = "never" continues none`,
			s.ContinueLimit, maxContinues)
	}
	if s.IdleStop != 0 && (s.IdleStop < 10*time.Second || s.IdleStop > longestIdle) {
		return settingsfile.Wrong("idle_stop", `%q must be between 10s and %s; "0s" is never`, s.IdleStop, longestIdle)
	}
	return nil
}

// providerName is also the key of a table in codex's config.toml.
var providerName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// ofCodex are names that codex itself gives to providers.
var ofCodex = []string{"openai", "ollama", "lmstudio", "amazon-bedrock"}

// checkAccounts is the fault of a remote that accounts serve, or of its accounts if a provider does.
func (s *Settings) checkAccounts() error {
	switch {
	case s.Provider != nil && len(s.Accounts) > 0:
		return settingsfile.Wrong("accounts", "the [provider] serves this remote: remove accounts, or [provider]")
	case s.Provider == nil && s.Network == Loopback:
		return settingsfile.Wrong("network",
			`with "loopback" no account is reached: set "all", or "none", which opens the model alone`)
	case len(s.Accounts) > maxItems:
		return settingsfile.Wrong("accounts", "has more than %d", maxItems)
	}
	for i, name := range s.Accounts {
		if err := units.ValidName(name); err != nil {
			return settingsfile.Wrong("accounts", "%v", err)
		}
		if slices.Contains(s.Accounts[:i], name) {
			return settingsfile.Wrong("accounts", "%q is there twice: remove one", name)
		}
	}
	return nil
}

func (s *Settings) checkProvider() error {
	p := s.Provider
	if p == nil {
		return nil
	}
	if len(p.Name) > 64 || !providerName.MatchString(p.Name) || slices.Contains(ofCodex, p.Name) {
		return settingsfile.Wrong("provider.name",
			"%q is not a name: use letters, digits, - and _, and none that codex has (%s)",
			p.Name, strings.Join(ofCodex, ", "))
	}
	u, err := url.Parse(p.BaseURL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return settingsfile.Wrong("provider.base_url", "%q is not an http(s) URL such as \"https://host/v1\"",
			p.BaseURL)
	}
	if s.Network == Loopback && !onThisMachine(u.Hostname()) {
		return settingsfile.Wrong("provider.base_url",
			`%q is not on this machine, and network = "loopback" reaches nothing else: set `+
				`network = "all", or "none", which opens the provider alone`, p.BaseURL)
	}
	switch {
	case s.Model == "":
		return settingsfile.Wrong("model", "is missing: name the model that the [provider] serves")
	case len(p.Models) > maxItems:
		return settingsfile.Wrong("provider.models", "has more than %d", maxItems)
	}
	if p.KeyFile != "" {
		if err := unitfile.CheckPath(p.KeyFile); err != nil {
			return settingsfile.Wrong("provider.key_file", "%v", err)
		}
	}
	if p.CAFile == "" {
		return nil
	}
	return settingsfile.CheckVisible("provider.ca_file", p.CAFile)
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Settings) checkNotify() error {
	if len(s.Notify) == 0 {
		return nil
	}
	if len(s.Notify) > maxItems {
		return settingsfile.Wrong("notify.command", "has more than %d words: put them into a script", maxItems)
	}
	return settingsfile.CheckVisible("notify.command", s.Notify[0])
}

// fixed are the settings of codex that the other keys of the file make, each with the key.
var fixed = map[string]string{
	"sandbox_mode": "sandbox", "sandbox_workspace_write": "writable and network", "default_permissions": "sandbox",
	"permissions": "sandbox and writable", "model": "model", "model_provider": "[provider]",
	"model_providers": "[provider]", "model_catalog_json": "[provider]", "profile": "the keys of the profile",
	"profiles": "the keys of the profile", "cli_auth_credentials_store": "[provider]",
	"chatgpt_base_url": "[provider]", "openai_base_url": "[provider]",
}

func (s *Settings) checkCodex() error {
	for key := range s.Codex {
		if instead, is := fixed[key]; is {
			return settingsfile.Wrong("codex."+key, "is made of other keys of this file: remove it, and set %s",
				instead)
		}
	}
	return nil
}
