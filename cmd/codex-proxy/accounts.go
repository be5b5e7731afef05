package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/units"
)

const accountsUsage = `Usage: codex-proxy accounts list [--json]
       codex-proxy accounts login [NAME] [--with-api-key]
       codex-proxy accounts add NAME
       codex-proxy accounts remove NAME [--purge]

Keeps the workers and their logins. Each worker has an account of its own, which
codex alone handles: login runs codex's own login in the worker's home and as the
workers' user, and neither this command nor the service sees a token.

list shows each worker's unit, what it is logged in with, the plan, and how much of
its limits is used up. login logs in the worker NAME (default), and starts it with
that login; a running one finishes its turns in flight first. add makes a worker:
its file, /etc/codex-proxy/workers/NAME.toml, and its unit, which starts when it
has a login. remove stops a worker, when its turns in flight are finished, and takes
both away again. The service is reloaded after add and remove. Run it as root.

  --with-api-key   log in with an API key, which codex reads from standard input.
                   Without this codex shows an address and a code for a browser
  --purge          remove the worker's home, too, and with it its login
  --json           {"accounts":[…]}, with the email of each account
  --socket PATH    the daemon's control socket (as config.toml says)
`

// The places that the packages and units fix.
const (
	workerFiles   = "/etc/codex-proxy/workers"
	workerHomes   = "/var/lib/codex-worker" // StateDirectory= of codex-worker@.service
	socketFiles   = "/run/codex-proxy"      // ListenStream= of codex-worker@.socket
	workerUser    = "codex-worker"
	defaultWorker = "default"
	codexTarget   = "codex.target"
)

// jobBound is for a restart of a worker, which TimeoutStopSec= and
// TimeoutStartSec= of its unit end earlier.
const jobBound = 7 * time.Minute

// accountsOptions is one command line of accounts.
type accountsOptions struct {
	systemd  *units.Manager
	settings string // config.toml
	socket   string
	apiKey   bool
	purge    bool
	json     bool
	stdin    *os.File
	stdout   io.Writer
	stderr   io.Writer
}

// accountsCommand is `codex-proxy accounts`.
func accountsCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := accountsOptions{systemd: units.NewManager(), settings: config.DefaultPath, stdin: os.Stdin, stdout: stdout, stderr: stderr}
	defer o.systemd.Close()
	flags := flag.NewFlagSet("accounts", flag.ContinueOnError)
	flags.BoolVar(&o.apiKey, "with-api-key", false, "")
	flags.BoolVar(&o.purge, "purge", false, "")
	flags.BoolVar(&o.json, "json", false, "")
	socket := controlFlag(flags)
	words, rest := splitWords(args)
	if status, done := parseFlags(flags, rest, accountsUsage, stdout, stderr); done {
		return status
	}
	o.socket = socket()
	run := o.command(append(words, flags.Args()...))
	if run == nil {
		fmt.Fprint(stderr, accountsUsage)
		return exitUsage
	}
	if os.Geteuid() != 0 {
		return fail(stderr, "accounts", errors.New("only root may do this: try sudo"), exitFailure)
	}
	if err := run(ctx); err != nil {
		return fail(stderr, "accounts", err, exitFailure)
	}
	return exitOK
}

// command is what the words and options ask for; nil if they make no sense.
func (o *accountsOptions) command(words []string) func(context.Context) error {
	verb, name := "", ""
	if len(words) > 0 {
		verb = words[0]
	}
	if len(words) == 2 {
		name = words[1]
	}
	named := name != "" && !o.json
	switch {
	case verb == "list" && len(words) == 1 && !o.apiKey && !o.purge:
		return o.list
	case verb == "login" && len(words) == 1 && !o.json && !o.purge:
		return o.on(defaultWorker, o.login)
	case verb == "login" && named && !o.purge:
		return o.on(name, o.login)
	case verb == "add" && named && !o.apiKey && !o.purge:
		return o.on(name, o.add)
	case verb == "remove" && named && !o.apiKey:
		return o.on(name, o.remove)
	}
	return nil
}

// on does something to one worker.
func (o *accountsOptions) on(name string, do func(context.Context, string) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := units.ValidName(name); err != nil {
			return err
		}
		return do(ctx, name)
	}
}

func workerFileOf(name string) string { return filepath.Join(workerFiles, name+".toml") }
func workerHomeOf(name string) string { return filepath.Join(workerHomes, name) }

// describe asks systemd for a unit; where there is none it is a unit that is not
// installed.
func (o *accountsOptions) describe(ctx context.Context, unit string) (units.Description, error) {
	d, err := o.systemd.Describe(ctx, unit)
	if errors.Is(err, units.ErrNoBus) {
		return units.Description{State: units.State{Unit: unit, LoadState: "not-found"}}, nil
	}
	return d, err
}

// program is the codex of a worker, to be run as the worker's user.
func (o *accountsOptions) program(w *codexhome.Worker, name string, unit units.Description) (*codexhome.Program, codexhome.Account, error) {
	user, err := account(workerUser)
	if err != nil {
		return nil, codexhome.Account{}, fmt.Errorf("cannot run codex as %s: %w", workerUser, err)
	}
	as := codexhome.Account{UID: user.UID, GID: user.GID}
	p, err := w.Program(workerHomeOf(name), unit.Environment, as)
	return p, as, err
}

// tell is a line for the person at the terminal.
func (o *accountsOptions) tell(format string, args ...any) {
	fmt.Fprintf(o.stderr, format+"\n", args...)
}
