package remoteconfig

import (
	"net/url"

	"codex-proxy/internal/handstable"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
)

// Hands is the table [hands]: codex has no file of the project, and a session of codex-runner executes its commands,
// patches and accesses to files.
type Hands = handstable.Hands

// HandsToken is the credential of the unit with the token of hands elsewhere (systemd.exec(5), LoadCredential=).
const HandsToken = "hands-token"

// checkHands refuses mistakes in the table, and keys of the file that a remote with hands does not have.
func (r raw) checkHands() error {
	h := r.Hands
	switch {
	case h == nil:
		return nil
	case !h.Runner && h.URL == "":
		return settingsfile.Wrong("hands.runner",
			"is missing: set runner = true, which has codex-runner execute the commands, or url, for an exec-server on "+
				"another host")
	case h.Runner && h.URL != "":
		return settingsfile.Wrong("hands.url",
			"an exec-server elsewhere needs no codex-runner here: remove runner, or url")
	case h.URL == "" && (h.Token != "" || h.CAFile != ""):
		return settingsfile.Wrong("hands.token_file", "token_file and ca_file are for url: remove them")
	case r.Directory != "" || len(r.Writable) > 0:
		return settingsfile.Wrong("directory",
			"a remote with [hands] has no directory of its own, and its commands work in the checkout of hands.repo: "+
				"remove directory and writable")
	case r.Sandbox != "":
		return settingsfile.Wrong("sandbox", "the session is the sandbox of [hands]: remove the key")
	case r.Network != "" && Network(r.Network) != NoNetwork:
		return settingsfile.Wrong("network",
			`codex reaches the model and its [hands] alone: remove the key, or set "none"`)
	}
	if h.URL != "" {
		return checkElsewhere(h)
	}
	if err := h.CheckLimits(); err != nil {
		return err
	}
	return h.CheckSources()
}

// checkElsewhere checks the keys of an exec-server on another host. The token goes over TLS, or stays on this machine.
func checkElsewhere(r *handstable.Raw) error {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "ws" && u.Scheme != "wss" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "":
		return settingsfile.Wrong("hands.url", `%q is not a URL such as "wss://host/hands"`, r.URL)
	case u.Scheme == "ws" && !onThisMachine(u.Hostname()):
		return settingsfile.Wrong("hands.url",
			"%q has no TLS, and the token would be readable on the way: use wss://", r.URL)
	case *r != handstable.Raw{URL: r.URL, Token: r.Token, CAFile: r.CAFile}:
		return settingsfile.Wrong("hands.url",
			"repository, set-up and limits belong to the other host: remove all keys but url, token_file and ca_file")
	case r.Token == "":
		return settingsfile.Wrong("hands.token_file", "is missing: name the file with the token of the exec-server")
	}
	if err := unitfile.CheckPath(r.Token); err != nil {
		return settingsfile.Wrong("hands.token_file", "%v", err)
	}
	if r.CAFile == "" {
		return nil
	}
	return settingsfile.CheckVisible("hands.ca_file", r.CAFile)
}
