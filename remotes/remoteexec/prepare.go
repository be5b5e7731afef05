package remoteexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/strict"
	"codex-proxy/notify"
	"codex-proxy/remotes/hands"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/units"
	"codex-proxy/units/restartdelay"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/prepare"
)

const (
	// modelProxyURL is where codex reaches the server that lends the provider's key or an account; remote-exec puts the
	// port into it.
	modelProxyURL = "http://127.0.0.1"
	// accountsProvider is the name by which codex has the accounts as a provider.
	accountsProvider = codexhome.OfAccounts
	// modelProxyKey is the variable with the token for that server.
	modelProxyKey = "CODEX_REMOTE_TOKEN"
	// managerDir is a directory in the home that codex cannot see: of the turn journal, and of the state of the last
	// preparation, which a tool would forge.
	managerDir = "keeper"
)

// Wait is `codex-proxy remote-wait`: it waits for the rest of the remote's restart delay, and chooses the copy of
// codex.
func Wait(ctx context.Context, name string, policy prepare.Policy, stderr io.Writer) error {
	if err := units.ValidRemoteName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	choose := func(ctx context.Context, n *notify.Notifier) {
		s, err := remoteconfig.Load(filepath.Join(paths.RemoteSettings, name+".toml"))
		if err == nil { // else remote-exec reports it
			(&prepare.Choice{Unit: units.Remote(name), CodexPath: s.CodexPath, Policy: policy, Notifier: n,
				Stderr: stderr}).Make(ctx)
		}
	}
	stopped := func() error { return nil } // nothing else runs after a stop
	return restartdelay.AwaitOf(ctx, units.Remote(name), logger, choose, stopped)
}

// prepared makes the home of the remote, within its unit, and returns its settings. codex checks the
// changes since its last check. An error has its exit status.
func (u *Unit) prepared(ctx context.Context) (*remoteconfig.Settings, error) {
	s, err := remoteconfig.Load(u.File)
	if err != nil {
		return nil, cli.Exit(cli.Config, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find codex-proxy itself: %w", err)
	}
	made := &codexhome.Home{
		Worker: s.Name, File: u.File, Dir: u.Home, Runtime: u.Runtime, Private: filepath.Join(u.Home, managerDir),
		Self: self, SearchPath: os.Getenv("PATH"), Note: func(line string) {
			fmt.Fprintf(u.Stderr, "codex-remote@%s: %s\n", s.Name, strings.Join(strings.Fields(line), " "))
		},
	}
	if err := prepare.WithSignals(ctx, func(ctx context.Context) error {
		return u.prepareRemote(ctx, s, made)
	}); err != nil {
		return nil, cli.Exit(remoteStatus(err), err)
	}
	return s, nil
}

// remoteStatus is prepare.Status, with the faults of the file.
func remoteStatus(err error) int {
	var fault *strict.Error
	if errors.As(err, &fault) {
		return cli.Config
	}
	return prepare.Status(err)
}

func (u *Unit) prepareRemote(ctx context.Context, s *remoteconfig.Settings, home *codexhome.Home) error {
	if os.Getenv(remoteconfig.HashVariable) != s.Hash {
		return &codexhome.Problem{File: s.File, Text: "systemd has not read the file since its last change",
			Hint: "systemctl daemon-reload, then start again"}
	}
	if os.Geteuid() == 0 { // whatever the name of that user is
		return s.Fault("user", "%q has the rights of root: name a user without privileges", s.User)
	}
	for _, dir := range s.Directories() {
		if err := usable(s, dir); err != nil {
			return err
		}
	}
	if dir := s.Hands.RepoDirectory(); dir != "" {
		if err := owned(s, "hands.repo", dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{"home", managerDir} {
		if err := os.Mkdir(filepath.Join(home.Dir, dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cannot make the home: %w", err)
		}
	}
	if s.Provider != nil {
		if err := steady(s, "provider.ca_file", s.Provider.CAFile); err != nil {
			return err
		}
	}
	if len(s.Notify) > 0 {
		if err := steady(s, "notify.command", s.Notify[0]); err != nil {
			return err
		}
	}
	program, err := prepare.Chosen(units.Remote(s.Name))
	if home.Program = program; program == "" && err == nil {
		program, err = codexhome.FindCodex(s.CodexPath, home.SearchPath)
	}
	if err != nil {
		return err
	}
	if err := steady(s, "codex_path", program); err != nil {
		return err
	}
	r := codexhome.Remote{
		File: s.File, Text: []byte(s.Hash), Lines: s.Lines, CodexPath: s.CodexPath, Model: s.Model,
		BaseURL: modelProxyURL, Directory: s.Directory, Write: s.Sandbox == remoteconfig.WorkspaceWrite,
		Writable: s.Writable, Extra: s.Codex,
	}
	if s.Hands != nil {
		r.Directory, r.Write, r.Hands = hands.Directory, false, u.environments()
	}
	if p := s.Provider; p != nil {
		r.Provider, r.Models, r.KeyName = p.Name, p.Models, modelProxyKey
	}
	return home.PrepareRemote(ctx, r)
}

// usable is the fault of a directory that the user of the remote cannot work in.
func usable(s *remoteconfig.Settings, dir string) error {
	key := "writable"
	if dir == s.Directory {
		key = "directory"
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.Fault(key, "there is no directory %s: make it, or name another one", dir)
	case errors.Is(err, fs.ErrPermission):
		return s.Fault(key, "the user %s may not enter a directory above %s: give it search permission there", self(),
			dir)
	case err != nil:
		return s.Fault(key, "%v", err)
	case !info.IsDir():
		return s.Fault(key, "%s is not a directory: name one", dir)
	}
	if err := owned(s, key, dir); err != nil {
		return err
	}
	need, what := uint32(unix.R_OK|unix.X_OK), "read"
	if s.Sandbox == remoteconfig.WorkspaceWrite {
		need, what = need|unix.W_OK, "write to"
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, need, unix.AT_EACCESS); err != nil {
		return s.Fault(key, "the user %s may not %s %s (%v): give it the permission, name another `user`, or set "+
			"sandbox = \"read-only\"", self(), what, dir, err)
	}
	return nil
}

// owned is the fault of a directory with a link on its path that does not belong to root: a tool could have made it,
// and systemd would open its target to the remote.
func owned(s *remoteconfig.Settings, key, dir string) error {
	at := "/"
	for name := range strings.SplitSeq(dir[1:], "/") {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		if err != nil {
			return s.Fault(key, "%v", err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
			return s.Fault(key, "%s is a link that does not belong to root, and may lead anywhere: name the directory "+
				"itself", at)
		}
		target, err := os.Readlink(at)
		if err != nil {
			return s.Fault(key, "%v", err)
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		return owned(s, key, filepath.Join(target, strings.TrimPrefix(dir, at)))
	}
	return nil
}

// steady is the fault of a file that runs, or is trusted, outside of the namespaces, and that a tool can change. The
// unit lets its main process write where it lets tools write, and to the directories of the unit.
func steady(s *remoteconfig.Settings, key, file string) error {
	if file == "" {
		return nil
	}
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return s.Fault(key, "%v", err)
	}
	for _, path := range []string{file, target} {
		for at := path; at != "/"; at = filepath.Dir(at) {
			if unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK, unix.AT_EACCESS) == nil {
				return s.Fault(key, "the user %s, and so a tool, may write to %s: put the file where it may not, such as "+
					"below /usr/local, /opt or /etc", self(), at)
			}
		}
	}
	return nil
}

// self is our user, by its name if it has one here.
func self() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprint(os.Geteuid())
}
