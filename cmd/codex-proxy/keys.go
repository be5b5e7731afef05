package main

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
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/control"
)

// keysOptions is one command line of keys.
type keysOptions struct {
	file   keyFile
	tell   bool   // the running service
	named  string // the file that it must go by; empty: any
	socket string
	pages  config.Pages // that may use the API with a key
	limits []limitOption
	stdout io.Writer
	stderr io.Writer

	applying bool // there is nothing to do but to tell it
}

type limitOption struct{ name, value string }

func keysCommand() *cobra.Command {
	o := new(keysOptions)
	c := &cobra.Command{
		Use: "keys", Short: "add, list, limit and revoke API keys, or do without",
		Long: `
Keeps the API keys. Only hashes are stored: add shows the key once, on standard
output. A change holds for every request that comes after it; a service that does
not run takes it over when it starts. apply makes a change of the file by hand hold.

Once there has been a key, nobody is let in without one. When the last is revoked,
open lets programs on this machine in, but nothing that a reverse proxy passes on.

A limit is a number, or "none" to take it away.`,
	}
	flags := c.PersistentFlags()
	flags.Var(cli.Text((*string)(&o.file), "FILE"), "file", `the key file (as config.toml says). With another one the service
takes the change over only if --socket is given, too`)
	flags.Var(cli.Text(&o.socket, "PATH"), "socket", "the daemon's control socket (as config.toml says)")
	do := func(run func(ctx context.Context, name string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			o.stdout, o.stderr = c.OutOrStdout(), c.ErrOrStderr()
			err := o.locate(config.DefaultPath)
			if err == nil {
				err = run(c.Context(), strings.Join(args, ""))
			}
			return asRoot(err)
		}
	}
	add := &cobra.Command{Use: "add NAME [OPTION]...", Short: "make a key, and show it", RunE: do(o.add)}
	set := &cobra.Command{
		Use: "set NAME [OPTION]...", Short: "change the limits of a key", ValidArgsFunction: o.completeKeys,
		RunE: func(c *cobra.Command, args []string) error {
			if len(o.limits) == 0 {
				return cli.Misuse(c, "a limit is missing, such as --concurrent 4")
			}
			return do(o.set)(c, args)
		},
	}
	o.limitFlags(add.Flags())
	o.limitFlags(set.Flags())
	c.AddCommand(add, set,
		&cobra.Command{Use: "revoke NAME", Short: "remove a key", ValidArgsFunction: o.completeKeys, RunE: do(o.revoke)},
		&cobra.Command{Use: "open", Short: "let programs on this machine in without a key", RunE: do(o.open)},
		&cobra.Command{Use: "list", Short: "list the keys, with their limits", RunE: do(o.list)},
		&cobra.Command{Use: "apply", Short: "make a change of the file by hand hold", RunE: do(o.apply)},
	)
	return c
}

// limitFlags are the options of auth.LimitNames.
func (o *keysOptions) limitFlags(flags *pflag.FlagSet) {
	for _, limit := range []struct{ name, word, text string }{
		{auth.RequestsPerMinute, "N", "requests for a turn"},
		{auth.TokensPerMinute, "N", "prompt and completion together. One request may\novershoot, and is paid off before the next"},
		{auth.TokensPerDay, "N", "the same, of a day in UTC"},
		{auth.Concurrent, "N", "requests at the same time"},
		{auth.Models, "LIST", "the only models, by the names that clients use,\nwith a comma between them"},
	} {
		flags.Var(cli.Parsed(limit.word, "", func(value string) error {
			o.limits = append(o.limits, limitOption{limit.name, value})
			return new(auth.Limits).Set(limit.name, value)
		}), limit.name, limit.text)
	}
}

// locate finds the file and the socket of the service with these settings, where no
// option names others. The running service, which may go by settings of before, gets
// no keys but those of its own file, unless it is asked for by --socket.
func (o *keysOptions) locate(settings string) error {
	places, err := config.LoadPlaces(settings)
	own := keyFile(cmp.Or(places.KeyFile, paths.KeyFile))
	// Who names both needs no settings, nor does a user who may not read them.
	if err != nil && (o.file == "" || o.socket == "" && !errors.Is(err, fs.ErrPermission)) {
		return fmt.Errorf("cannot tell which file has the keys: %w", err)
	}
	o.tell = o.socket != "" || o.file == "" || filepath.Clean(string(o.file)) == filepath.Clean(string(own))
	o.file = cmp.Or(o.file, own)
	if filepath.Clean(string(o.file)) == filepath.Clean(string(own)) {
		o.pages = places.Pages
	}
	if o.socket == "" {
		o.named = filepath.Clean(string(o.file))
	}
	o.socket = cmp.Or(o.socket, controlSocketOf(places))
	return nil
}

func (o *keysOptions) add(ctx context.Context, name string) error {
	key, line, err := auth.Generate(name)
	if err != nil {
		return err
	}
	limits, err := o.limited(auth.Limits{})
	if err != nil {
		return err
	}
	var shown error
	err = o.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		if slices.Contains(keys.Names(), name) {
			return nil, fmt.Errorf("there is a key %q already; revoke it first, or choose another name", name)
		}
		return append(lines, strings.Join(append([]string{line}, limits.Words()...), " ")), nil
	}, func() { _, shown = fmt.Fprintln(o.stdout, key) })
	if shown != nil {
		return errors.Join(err, fmt.Errorf("the key %q is made, but could not be shown, and nobody has it: %w; codex-proxy keys revoke %s, and add it again", name, shown, name))
	}
	return err
}

// limited are the limits with what the options change.
func (o *keysOptions) limited(limits auth.Limits) (auth.Limits, error) {
	for _, l := range o.limits {
		if err := limits.Set(l.name, l.value); err != nil {
			return limits, err
		}
	}
	return limits, nil
}

func (o *keysOptions) set(ctx context.Context, name string) error {
	return o.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		i, key, err := find(lines, keys, name)
		if err != nil {
			return nil, err
		}
		limits, err := o.limited(key.Limits)
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

func (o *keysOptions) revoke(ctx context.Context, name string) error {
	return o.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		i, _, err := find(lines, keys, name)
		if err != nil {
			return nil, err
		}
		return slices.Delete(lines, i, i+1), nil
	}, func() {})
}

// open lets programs on this machine in without a key.
func (o *keysOptions) open(ctx context.Context, _ string) error {
	return o.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		if !keys.Empty() {
			return nil, fmt.Errorf("there are keys, without which nobody is let in: codex-proxy keys revoke each of %s first",
				strings.Join(keys.Names(), ", "))
		}
		if o.inForce(ctx).Required {
			return nil, errors.New("other machines can reach the API, so that a key is asked for in any case; " +
				"codex-proxy keys add NAME, or listen on 127.0.0.1")
		}
		return slices.DeleteFunc(lines, auth.IsClosedLine), nil
	}, func() {})
}

// apply opens nothing: an empty file may be a mistake.
func (o *keysOptions) apply(ctx context.Context, _ string) error {
	o.tell, o.applying = true, true
	return o.change(ctx, func(lines []string, keys *auth.Keys) ([]string, error) {
		if now := o.inForce(ctx); keys.Open() && (now.Count > 0 || now.Closed) {
			return nil, fmt.Errorf("%s holds no key, and the running service asks for one; codex-proxy keys add NAME makes one, "+
				"and codex-proxy keys open lets programs on this machine in without one", o.file)
		}
		return lines, nil
	}, func() {})
}

// inForce is what holds in the running service; empty if no service runs, or if it
// does not answer.
func (o *keysOptions) inForce(ctx context.Context) (keys control.Keys) {
	if o.tell {
		keys, _ = control.NewClient(o.socket).Keys(ctx)
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

// change changes the file, and tells the running service under the same lock, so
// that of two commands the later one has the last word. written is called between
// the two.
func (o *keysOptions) change(ctx context.Context, edit keyChange, written func()) error {
	unlock, err := o.file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	keys, err := o.file.edit(edit, o.pages.Check)
	if err != nil {
		return err
	}
	written()
	if !o.tell {
		return nil
	}
	got, err := control.NewClient(o.socket).SetKeys(ctx, o.named, keys.Text())
	return o.told(got, err)
}

func (o *keysOptions) list(context.Context, string) error {
	_, keys, err := o.file.read()
	if err != nil {
		return err
	}
	if keys.Empty() {
		fmt.Fprintln(o.stderr, keyless(control.Keys{Closed: keys.Closed()}))
		return nil
	}
	table := tabwriter.NewWriter(o.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tREQUESTS/MIN\tTOKENS/MIN\tTOKENS/DAY\tCONCURRENT\tMODELS")
	for _, key := range keys.All() {
		row := []string{key.Name}
		for _, name := range auth.LimitNames {
			value := key.Limits.Value(name)
			row = append(row, either(value == "none", "-", value))
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
