// Package apikeys changes the file of API keys and sends it to the running service.
package apikeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/nearest"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/auth"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/workers/control"
)

// Editor is the state of one command line of keys. Locate has to be called first.
type Editor struct {
	File   File
	Socket string // the daemon's control socket
	Limits []Limit
	JSON   bool // List prints JSON
	Stdout io.Writer
	Stderr io.Writer // for people

	notify   bool         // send changes to the running service
	named    string       // the file by which it must go; empty: any
	pages    config.Pages // that may use the API with a key
	workers  []string     // that the keys may name as accounts
	remotes  []string     // likewise
	checked  bool         // the file is the service's, with these workers and remotes
	applying bool         // the file itself does not change
	database *database    // that has the keys; nil: the file has them
}

// Limit is a change of one limit, by its name in auth.LimitNames.
type Limit struct{ Name, Value string }

// Locate finds the file and the socket of the service with these settings, if they are
// empty. The running service, which may go by older settings, gets no keys but those
// of its own file, unless Socket is set.
func (e *Editor) Locate(settings string) error {
	places, err := config.LoadPlaces(settings)
	own := File(cmp.Or(places.KeyFile, paths.KeyFile))
	// Settings are not needed if both are named, or by a user who may not read them.
	if err != nil && (e.File == "" || e.Socket == "" && !errors.Is(err, fs.ErrPermission)) {
		return fmt.Errorf("cannot find the key file: %w", err)
	}
	if e.File == "" && !places.Database.Address.IsZero() {
		e.database, own = &database{places.Database}, File(places.KeyFile)
	}
	e.notify = e.Socket != "" || e.File == "" || filepath.Clean(string(e.File)) == filepath.Clean(string(own))
	e.File = cmp.Or(e.File, own)
	if e.database == nil && filepath.Clean(string(e.File)) == filepath.Clean(string(own)) {
		e.pages, e.workers, e.checked = places.Pages, places.Workers, true
		// A directory that cannot be read is as good as none: a name then gets the error.
		e.remotes, _ = remoteconfig.Names(filepath.Join(filepath.Dir(settings), filepath.Base(paths.RemoteSettings)))
	}
	if e.Socket == "" {
		e.named = filepath.Clean(string(e.File))
	}
	e.Socket = cmp.Or(e.Socket, places.Socket())
	return nil
}

// Add makes a key and prints it. A key that cannot be printed is an error.
func (e *Editor) Add(ctx context.Context, name string) error {
	key, line, err := auth.Generate(name)
	if err != nil {
		return err
	}
	limits, err := e.limited(auth.Limits{})
	if err != nil {
		return err
	}
	var shown error
	err = e.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		if slices.Contains(keys.Names(), name) {
			return nil, fmt.Errorf("there is a key %q already; revoke it first, or choose another name", name)
		}
		return append(lines, strings.Join(append([]string{line}, limits.Words()...), " ")), nil
	}, func() { _, shown = fmt.Fprintln(e.Stdout, key) })
	if shown != nil {
		return errors.Join(err, fmt.Errorf("the key %q is made, but could not be shown, and nobody has it: %w; "+
			"codex-proxy keys revoke %s, and add it again", name, shown, name))
	}
	return err
}

// limited returns the limits with the changes of the options.
func (e *Editor) limited(limits auth.Limits) (auth.Limits, error) {
	for _, l := range e.Limits {
		if err := limits.Set(l.Name, l.Value); err != nil {
			return limits, err
		}
		if err := e.check(l.Name, limits); err != nil {
			return limits, err
		}
	}
	e.warn(limits)
	return limits, nil
}

// warn names the remotes of which a key that only looks at the console is an owner over the API.
func (e *Editor) warn(limits auth.Limits) {
	owned := slices.DeleteFunc(limits.RemoteNames(), func(name string) bool {
		viewer, _ := limits.Remote(name)
		return viewer
	})
	if limits.Console == auth.Read && len(owned) > 0 {
		fmt.Fprintf(e.Stderr, "Warning: --console=read is for the page alone. Over the API the key is an owner of %s, with a "+
			"shell there; with --remotes=%s:viewer it only watches.\n", strings.Join(owned, ", "),
			strings.Join(owned, ":viewer,"))
	}
}

// check is an error for a name in a changed limit that means nothing.
func (e *Editor) check(limit string, limits auth.Limits) error {
	switch limit {
	case auth.Accounts:
		return e.checkNames("account", "accounts", limits.Accounts, e.workers)
	case auth.Remotes:
		return e.checkNames("remote", "remotes", limits.RemoteNames(), e.remotes)
	}
	return nil
}

// checkNames is an error for an account or a remote that the service does not have. Another file than the service's own
// may be for another service.
func (e *Editor) checkNames(kind, command string, names, there []string) error {
	for _, name := range names {
		if !e.checked || slices.Contains(there, name) {
			continue
		}
		if near := nearest.To(name, there, 1); len(near) > 0 {
			return fmt.Errorf("there is no %s %q; did you mean %s?", kind, name, near[0])
		}
		return fmt.Errorf("there is no %s %q; there are %s (codex-proxy %s add makes one)", kind, name,
			cmp.Or(strings.Join(there, ", "), "none"), command)
	}
	return nil
}

// Set changes the limits of a key by Limits.
func (e *Editor) Set(ctx context.Context, name string) error {
	return e.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		i, key, err := find(lines, keys, name)
		if err != nil {
			return nil, err
		}
		limits, err := e.limited(key.Limits)
		if err != nil {
			return nil, err
		}
		words, comment, commented := strings.Cut(lines[i], "#")
		lines[i] = strings.Join(append(strings.Fields(words)[:2], limits.Words()...), " ")
		if commented {
			lines[i] += " #" + comment
		}
		return lines, nil
	}, func() {})
}

// Revoke removes a key.
func (e *Editor) Revoke(ctx context.Context, name string) error {
	return e.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		i, _, err := find(lines, keys, name)
		if err != nil {
			return nil, err
		}
		return slices.Delete(lines, i, i+1), nil
	}, func() {})
}

// Open lets programs on this machine in without a key.
func (e *Editor) Open(ctx context.Context, _ string) error {
	if e.database != nil {
		return errors.New("with [database] in config.toml every request needs a key")
	}
	return e.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		if !keys.Empty() {
			return nil, fmt.Errorf("there are keys, without which nobody is let in: "+
				"codex-proxy keys revoke each of %s first", strings.Join(keys.Names(), ", "))
		}
		if e.inForce(ctx).Required {
			return nil, errors.New("other machines can reach the API, so that a key is asked for in any case; " +
				"codex-proxy keys add NAME, or listen on 127.0.0.1")
		}
		return slices.DeleteFunc(lines, auth.IsClosedLine), nil
	}, func() {})
}

// Apply makes a change of the file by hand hold. It does not open access: an empty
// file may be a mistake.
func (e *Editor) Apply(ctx context.Context, _ string) error {
	if e.database != nil {
		return errors.New("the keys are in the database that config.toml names; codex-proxy keys set changes " +
			"them there, and codex-proxy database join adds those of a file")
	}
	e.notify, e.applying = true, true
	return e.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		if now := e.inForce(ctx); keys.Open() && (now.Count > 0 || now.Closed) {
			return nil, fmt.Errorf("%s holds no key, and the running service asks for one; codex-proxy keys add NAME "+
				"makes one, and codex-proxy keys open lets programs on this machine in without one", e.File)
		}
		return lines, nil
	}, func() {})
}

// inForce returns the keys of the running service; empty if no service answers.
func (e *Editor) inForce(ctx context.Context) (keys control.Keys) {
	if e.notify {
		keys, _ = control.NewClient(e.Socket).Keys(ctx)
	}
	return keys
}

// find returns the key of that name, and its line.
func find(lines []string, keys *auth.Keys, name string) (int, auth.Key, error) {
	for _, key := range keys.All() {
		if key.Name != name {
			continue
		}
		return slices.IndexFunc(lines, func(line string) bool {
			words := auth.Fields(line)
			return len(words) > 0 && words[0] == name
		}), key, nil
	}
	return 0, auth.Key{}, fmt.Errorf("there is no key %q; codex-proxy keys list shows what there is", name)
}
