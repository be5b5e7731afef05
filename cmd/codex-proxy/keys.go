package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/control"
)

const keysUsage = `Usage: codex-proxy keys add NAME [LIMIT]...
       codex-proxy keys set NAME LIMIT...
       codex-proxy keys revoke NAME
       codex-proxy keys open
       codex-proxy keys list
       codex-proxy keys apply

Keeps the API keys. Only hashes are stored: add shows the key once, on standard
output. A change holds for every request that comes after it; a service that does
not run takes it over when it starts. apply makes a change of the file by hand hold.

Once there has been a key, nobody is let in without one. When the last is revoked,
open lets programs on this machine in, but nothing that a reverse proxy passes on.

Limits, each a number, or "none" to take it away:
  --requests-per-minute N   requests for a turn
  --tokens-per-minute N     prompt and completion together. One request may
                            overshoot, and is paid off before the next
  --tokens-per-day N        the same, of a day in UTC
  --concurrent N            requests at the same time
  --models LIST             the only models, by the names that clients use, with
                            a comma between them

  --file FILE      the key file (as config.toml says). With another one the service
                   is told only if --socket is given, too
  --socket PATH    the daemon's control socket (as config.toml says)
`

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

// keysCommand is `codex-proxy keys`.
func keysCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := keysOptions{stdout: stdout, stderr: stderr}
	flags := flag.NewFlagSet("keys", flag.ContinueOnError)
	flags.StringVar((*string)(&o.file), "file", "", "")
	flags.StringVar(&o.socket, "socket", "", "")
	for _, name := range auth.LimitNames {
		flags.Func(name, "", func(value string) error {
			o.limits = append(o.limits, limitOption{name, value})
			return new(auth.Limits).Set(name, value)
		})
	}
	words, rest := splitWords(args)
	if status, done := parseFlags(flags, rest, keysUsage, stdout, stderr); done {
		return status
	}
	run := o.command(append(words, flags.Args()...))
	if run == nil {
		fmt.Fprint(stderr, keysUsage)
		return exitUsage
	}
	err := o.locate(config.DefaultPath)
	if err == nil {
		err = run(ctx)
	}
	if err != nil {
		return fail(stderr, "keys", asRoot(err), exitFailure)
	}
	return exitOK
}

// locate finds the file and the socket of the service with these settings, where no
// option names others. The running service, which may go by settings of before, gets
// no keys but those of its own file, unless it is asked for by --socket.
func (o *keysOptions) locate(settings string) error {
	places, err := config.LoadPlaces(settings)
	own := keyFile(cmp.Or(places.KeyFile, defaultKeyFile))
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

// command is what the words ask for; nil if they make no sense.
func (o *keysOptions) command(words []string) func(context.Context) error {
	switch {
	case len(words) == 2 && words[0] == "add":
		return func(ctx context.Context) error { return o.add(ctx, words[1]) }
	case len(words) == 2 && words[0] == "set" && len(o.limits) > 0:
		return func(ctx context.Context) error { return o.set(ctx, words[1]) }
	case len(words) == 2 && words[0] == "revoke" && len(o.limits) == 0:
		return func(ctx context.Context) error { return o.revoke(ctx, words[1]) }
	case len(words) == 1 && words[0] == "open" && len(o.limits) == 0:
		return o.open
	case len(words) == 1 && words[0] == "apply" && len(o.limits) == 0:
		return o.apply
	case len(words) == 1 && words[0] == "list" && len(o.limits) == 0:
		return func(context.Context) error { return o.list() }
	default:
		return nil
	}
}

// splitWords lets options stand after the words, where people put them.
func splitWords(args []string) (words, rest []string) {
	n := slices.IndexFunc(args, func(a string) bool { return len(a) > 0 && a[0] == '-' })
	if n < 0 {
		return args, nil
	}
	return args[:n], args[n:]
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
func (o *keysOptions) open(ctx context.Context) error {
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
func (o *keysOptions) apply(ctx context.Context) error {
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

func (o *keysOptions) list() error {
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
