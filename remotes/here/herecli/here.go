// Package herecli gives a user a unit for the own codex, takes it away, and shows its state and its journal.
package herecli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/notify"
	"codex-proxy/remotes/here"
	"codex-proxy/units"
)

// jobBound is for a start or a stop of the unit: the first start copies codex.
const jobBound = 3 * time.Minute

// Here is the input of one command line of here.
type Here struct {
	Systemd *units.Manager
	Records here.Records
	Config  string // codex's, of the machine
	Proc    string

	All    bool   // Disable is for all users
	Lend   string // Accounts lends these, with commas, or all
	Own    bool   // Accounts ends a loan
	JSON   bool   // Status prints JSON
	Stdout io.Writer
	Stderr io.Writer // for people
}

func (h *Here) print(format string, args ...any) { fmt.Fprintf(h.Stderr, format+"\n", args...) }

// Name is the user of a command without a name: the caller of sudo, or our own user.
func Name() (string, error) {
	if name := os.Getenv("SUDO_USER"); os.Geteuid() == 0 && name != "" && name != "root" {
		return name, nil
	}
	u, err := user.Current()
	if err != nil || u.Uid == "0" {
		return "", errors.New("name a user: codex-proxy here … NAME")
	}
	return u.Username, nil
}

// account returns the user, if here is possible for one like it.
func account(name string) (r here.Record, err error) {
	if err := units.ValidUserName(name); err != nil {
		return r, err
	}
	ids, err := reach.Lookup(name)
	if err != nil {
		return r, fmt.Errorf("there is no user %q", name)
	}
	if ids.UID == 0 {
		return r, errors.New("the codex of root gets no unit: it would have all rights, with nobody at the terminal")
	}
	u, err := user.Lookup(name)
	if err != nil {
		return r, err
	}
	info, err := os.Stat(u.HomeDir)
	if err != nil || !info.IsDir() || !filepath.IsAbs(u.HomeDir) {
		return r, fmt.Errorf("the user %s has no home directory %q", name, u.HomeDir)
	}
	return here.Record{User: name, Home: u.HomeDir, UID: int(ids.UID), GID: int(ids.GID)}, nil
}

// Logs becomes journalctl for the units of the user.
func (h *Here) Logs(name string, options ...string) error {
	if _, err := h.Records.Get(name); errors.Is(err, fs.ErrNotExist) {
		return notEnabled(name)
	}
	args := []string{"journalctl", "-u", units.Here(name), "-u", units.HereSocket(name)}
	return notify.Become(append(args, options...))
}

func notEnabled(name string) error {
	return fmt.Errorf("the codex of %s has no unit: sudo codex-proxy here enable %s", name, name)
}

// socket is the socket that clients of the user connect to.
func socket(name string) string { return paths.HereSocket(name) }

// bounded gives a job of systemd its bound.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	defer cancel()
	return do(ctx)
}
