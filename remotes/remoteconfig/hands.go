package remoteconfig

import (
	"net/url"
	"strings"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/unitfile"
)

// Hands is the table [hands]: codex has no file of the project, and a session of codex-runner executes its commands,
// patches and accesses to files. The limits have the names that codex-runner gives them.
type Hands struct {
	// URL is the exec-server on another host, with the token in TokenFile, and no other key; empty: codex-runner of
	// this machine.
	URL       string
	TokenFile string
	CAFile    string // the certificate authorities of the URL; empty: the system's

	Repo  string // a directory or a URL
	Ref   string // empty: of HEAD
	SetUp string // the file of a set-up; empty: the repository's own

	Timeout  time.Duration // of one exec-server
	CPUs     float64       // 0: codex-runner's default, as for the limits that follow
	Memory   int64         // bytes
	Tasks    int64
	FileSize int64 // bytes
	Disk     int64 // bytes
}

// HandsToken is the credential of the unit with the token of hands elsewhere (systemd.exec(5), LoadCredential=).
const HandsToken = "hands-token"

// HandsGroup is the group of users that may ask codex-runner for sessions.
const HandsGroup = "codex-runner"

// HandsTimeout is the longest time of a command that codex-runner takes, and the default of hands.
const HandsTimeout = 24 * time.Hour

type rawHands struct {
	Runner   bool                  `toml:"runner"`
	URL      string                `toml:"url"`
	Token    string                `toml:"token_file"`
	CAFile   string                `toml:"ca_file"`
	Repo     string                `toml:"repo"`
	Ref      string                `toml:"ref"`
	SetUp    string                `toml:"setup"`
	Timeout  settingsfile.Duration `toml:"timeout"`
	CPUs     float64               `toml:"cpus"`
	Memory   string                `toml:"memory"`
	Tasks    int64                 `toml:"tasks"`
	FileSize string                `toml:"file_size"`
	Disk     string                `toml:"disk"`
}

// hands are the settings of the table, without a mistake in a size.
func (r *rawHands) hands() *Hands {
	if r == nil {
		return nil
	}
	h := &Hands{URL: r.URL, TokenFile: r.Token, CAFile: r.CAFile, Repo: r.Repo, Ref: r.Ref, SetUp: r.SetUp, Timeout: r.Timeout.Duration, CPUs: r.CPUs, Tasks: r.Tasks}
	if h.Timeout == 0 {
		h.Timeout = HandsTimeout
	}
	_ = cli.Bytes(&h.Memory).Set(r.Memory) // check reports the mistakes
	_ = cli.Bytes(&h.FileSize).Set(r.FileSize)
	_ = cli.Bytes(&h.Disk).Set(r.Disk)
	return h
}

// repoURL matches the URLs of git that codex-runner fetches.
var repoURL = lazyregexp.New(`^([a-z][a-z0-9+.-]*://|[^/:\s]+:)\S+$`)

// maxRef bounds the name of a branch, tag or commit.
const maxRef = 1024

// check refuses mistakes in the table, and keys of the file that a remote with hands does not have.
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
		return settingsfile.Wrong("hands.url", "an exec-server elsewhere needs no codex-runner here: remove runner, or url")
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
	case len(h.Ref) > maxRef || strings.HasPrefix(h.Ref, "-"):
		return settingsfile.Wrong("hands.ref", "%.40q is not the name of a branch, tag or commit", h.Ref)
	case h.Timeout.Duration < 0 || h.Timeout.Duration > HandsTimeout:
		return settingsfile.Wrong("hands.timeout", "%q must be between 1s and %s", h.Timeout.Duration, HandsTimeout)
	case h.CPUs < 0 || h.CPUs > maxTasks:
		return settingsfile.Wrong("hands.cpus", "%v is not a number of processors such as 0.5 or 2", h.CPUs)
	case h.Tasks < 0 || h.Tasks > maxTasks:
		return settingsfile.Wrong("hands.tasks", "%d must be between 16 and %d", h.Tasks, maxTasks)
	}
	if h.URL != "" {
		return h.checkElsewhere()
	}
	if err := h.checkSources(); err != nil {
		return err
	}
	for key, size := range map[string]string{"memory": h.Memory, "file_size": h.FileSize, "disk": h.Disk} {
		var n int64
		if size != "" && cli.Bytes(&n).Set(size) != nil {
			return settingsfile.Wrong("hands."+key, `%q is not a size such as "512M" or "4G"`, size)
		}
	}
	return nil
}

// checkElsewhere checks the keys of an exec-server on another host. The token goes over TLS, or stays on this machine.
func (r *rawHands) checkElsewhere() error {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "ws" && u.Scheme != "wss" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "":
		return settingsfile.Wrong("hands.url", `%q is not a URL such as "wss://host/hands"`, r.URL)
	case u.Scheme == "ws" && !onThisMachine(u.Hostname()):
		return settingsfile.Wrong("hands.url", "%q has no TLS, and the token would be readable on the way: use wss://", r.URL)
	case *r != rawHands{URL: r.URL, Token: r.Token, CAFile: r.CAFile}:
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
	return checkVisible("hands.ca_file", r.CAFile)
}

func (r *rawHands) checkSources() error {
	if strings.HasPrefix(r.Repo, "/") {
		if err := checkDirectory("hands.repo", r.Repo); err != nil {
			return err
		}
	} else if !repoURL.MatchString(r.Repo) {
		return settingsfile.Wrong("hands.repo",
			`%q is neither the absolute path of a repository nor a URL such as "https://host/app.git"`, r.Repo)
	}
	if r.SetUp == "" {
		return nil
	}
	if err := unitfile.CheckPath(r.SetUp); err != nil {
		return settingsfile.Wrong("hands.setup", "%v", err)
	}
	return checkVisible("hands.setup", r.SetUp)
}

// RepoDirectory is the directory that the commits are sent from; empty: codex-runner fetches a URL.
func (h *Hands) RepoDirectory() string {
	if h == nil || !strings.HasPrefix(h.Repo, "/") {
		return ""
	}
	return h.Repo
}
