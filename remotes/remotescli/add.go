package remotescli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remotescheck"
	"codex-proxy/units"
)

// Answers are the values of Add's command line for the file; empty ones leave the values of the template.
type Answers struct {
	Directory, User, Group, Network, Sandbox, Model, BaseURL, KeyFile, CodexPath string

	Hands HandsAnswers
}

// HandsAnswers are the values of Add's command line for the table [hands].
type HandsAnswers struct {
	By        string // "runner", or the URL of an exec-server; empty: no hands
	TokenFile string // of the exec-server
	CAFile    string // of the exec-server; empty: the authorities of the system
	Repo, Ref string
	Memory    string
}

// check is the fault of options that go together, or do not.
func (a Answers) check() error {
	h := a.Hands
	switch {
	case a.KeyFile != "" && a.BaseURL == "":
		return errors.New("--key-file has the key of --base-url: give both, or none for the accounts of codex-proxy")
	case h.By == "" && (h.Repo != "" || h.Ref != "" || h.Memory != ""):
		return errors.New("--repo, --ref and --memory are of hands: add --hands runner, or name the directory of " +
			"codex with --dir")
	case h.elsewhere() != (h.TokenFile != ""):
		return errors.New("--hands URL and --token-file, the file with the token of the exec-server there, go together")
	case h.CAFile != "" && !h.elsewhere():
		return errors.New("--ca-file is of --hands URL: give both")
	case h.elsewhere() && (h.Repo != "" || h.Ref != "" || h.Memory != ""):
		return errors.New("the repository and the limits of hands at a URL belong to that host: leave --repo, --ref and " +
			"--memory out")
	case h.By == "" && a.Directory == "":
		return errors.New("name the directory that codex works in with --dir, or the repository of its hands with " +
			"--hands runner --repo")
	case h.By != "" && h.By != "runner" && !h.elsewhere():
		return fmt.Errorf("--hands %s is unknown: use --hands runner, or --hands wss://HOST/PATH", h.By)
	case h.By == "runner" && h.Repo == "":
		return errors.New("--hands runner needs --repo, the repository of its commands: a directory or a URL")
	case h.By != "" && (a.Directory != "" || a.Sandbox != "" || a.Network != ""):
		return errors.New("a remote with hands works in a session of codex-runner: leave --dir, --sandbox and " +
			"--network out")
	}
	return nil
}

// elsewhere reports whether the hands are on another host.
func (h HandsAnswers) elsewhere() bool {
	return strings.HasPrefix(h.By, "wss://") || strings.HasPrefix(h.By, "ws://")
}

// table is the table [hands].
func (h HandsAnswers) table() string {
	text := "\n[hands]\nrunner = true\n"
	if h.elsewhere() {
		text = fmt.Sprintf("\n[hands]\nurl = %q\ntoken_file = %q\n", h.By, h.TokenFile)
	}
	for _, answer := range [][2]string{{"ca_file", h.CAFile}, {"repo", h.Repo}, {"ref", h.Ref}, {"memory", h.Memory}} {
		if answer[1] != "" {
			text += answer[0] + " = " + strconv.Quote(answer[1]) + "\n"
		}
	}
	return text
}

// Add makes a remote: its file, and with it its units. It starts the sockets, at boot, too: an attach starts the rest.
func (r *Remotes) Add(ctx context.Context, name string) error {
	file := r.fileOf(name)
	if settingsfile.Exists(file) {
		return fmt.Errorf("there is a remote %q already: %s", name, file)
	}
	if err := r.With.check(); err != nil {
		return err
	}
	template, err := os.ReadFile(r.Template)
	if err != nil {
		return fmt.Errorf("cannot read the template: %w: reinstall the package", err)
	}
	text := r.With.fill(named(string(template), name))
	s, err := remoteconfig.Parse(file, []byte(text))
	if err != nil {
		return err
	}
	if _, err := remotescheck.Account(s); err != nil { // systemd could not make the socket
		return fmt.Errorf("user: %w", err)
	}
	if err := remotescheck.GroupFault(s); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if err := settingsfile.WriteNew(file, text); err != nil {
		return err
	}
	if err := r.Systemd.DaemonReload(ctx); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	r.print("The remote %s is made: %s, %s.", name, file, units.Remote(name))
	faults := remotescheck.Faults(s)
	for _, fault := range faults {
		r.print("Before it can start: %s", fault)
	}
	if err := r.open(ctx, name); err != nil {
		return err
	}
	if len(faults) > 0 {
		r.print("Then: codex-proxy remotes check %[1]s && systemctl daemon-reload && codex-proxy attach %[1]s", name)
	} else {
		r.print("Attach: codex-proxy attach %s", name)
	}
	return nil
}

// open starts the sockets, now and at boot.
func (r *Remotes) open(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	defer cancel()
	if err := r.Systemd.Enable(ctx, units.RemoteSocket(name)); err != nil {
		return err
	}
	return r.Systemd.Start(ctx, units.RemoteSocket(name))
}

// placeholderName is the word that stands for the name of the remote in the template.
var placeholderName = lazyregexp.New(`\bNAME\b`)

func named(text, name string) string { return placeholderName.ReplaceAllString(text, name) }

// fill puts the answers into the template, in place of its lines of keys.
func (a Answers) fill(text string) string {
	if a.Hands.By != "" {
		text = strings.Replace(text, "\ndirectory = ", "\n# directory = ", 1)
		text = strings.Replace(text, "\n#[hands]\n#runner = true\n", "\n"+a.Hands.table(), 1)
	}
	if a.BaseURL != "" {
		text = strings.NewReplacer("\n#[provider]", "\n[provider]", "\n#name = ", "\nname = ").Replace(text)
	}
	for _, answer := range [][2]string{
		{"directory", a.Directory}, {"user", a.User}, {"group", a.Group}, {"network", a.Network}, {"sandbox",
			a.Sandbox},
		{"model", a.Model}, {"codex_path", a.CodexPath}, {"base_url", a.BaseURL}, {"key_file", a.KeyFile},
	} {
		if answer[1] == "" {
			continue
		}
		line := regexp.MustCompile(`(?m)^(#|# )?` + answer[0] + ` = .*$`)
		value := answer[0] + " = " + strconv.Quote(answer[1])
		text = line.ReplaceAllString(text, strings.ReplaceAll(value, "$", "$$"))
	}
	return text
}
