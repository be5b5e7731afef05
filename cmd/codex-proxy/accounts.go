package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/codexhome"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/units"
)

// The places that the packages and units fix.
const (
	workerUser    = paths.WorkerUser
	defaultWorker = "default"
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

func accountsCommand() *cobra.Command {
	o := accountsOptions{systemd: units.NewManager(), settings: config.DefaultPath, stdin: os.Stdin}
	c := &cobra.Command{
		Use: "accounts", Short: "log workers in, list, add and remove them",
		Long: `
Keeps the workers and their logins. Each worker has an account of its own, which
codex alone handles: login runs codex's own login in the worker's home and as the
workers' user, and neither this command nor the service sees a token.

list shows each worker's unit, what it is logged in with, the plan, and how much of
its limits is used up. login logs in the worker NAME (default), and starts it with
that login; a running one finishes its turns in flight first. add makes a worker:
its file, /etc/codex-proxy/workers/NAME.toml, and its unit, which starts when it
has a login. remove stops a worker, when its turns in flight are finished, and takes
both away again. The service is reloaded after add and remove. Run it as root.`,
	}
	socket := controlFlag(c.PersistentFlags())
	do := func(run func(context.Context, string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			o.stdout, o.stderr, o.socket = c.OutOrStdout(), c.ErrOrStderr(), socket()
			defer o.systemd.Close()
			if os.Geteuid() != 0 {
				return errors.New("only root may do this: try sudo")
			}
			name := defaultWorker
			if len(args) > 0 {
				name = args[0]
			}
			return run(c.Context(), name)
		}
	}
	list := &cobra.Command{Use: "list", Short: "list the workers, with what they are logged in with", RunE: do(o.list)}
	list.Flags().BoolVar(&o.json, "json", false, `{"accounts":[…]}, with the email of each account`)
	login := &cobra.Command{
		Use: "login [NAME]", Short: "log a worker in, and start it", ValidArgsFunction: completeWorkerFiles,
		RunE: do(o.on(o.login)),
	}
	login.Flags().BoolVar(&o.apiKey, "with-api-key", false, `log in with an API key, which codex reads from standard input.
Without this codex shows an address and a code for a browser`)
	add := &cobra.Command{Use: "add NAME", Short: "make a worker", RunE: do(o.on(o.add))}
	remove := &cobra.Command{
		Use: "remove NAME", Short: "stop a worker, and remove it", ValidArgsFunction: completeWorkerFiles,
		RunE: do(o.on(o.remove)),
	}
	remove.Flags().BoolVar(&o.purge, "purge", false, "remove the worker's home, too, and with it its login")
	c.AddCommand(list, login, add, remove)
	return c
}

// on does something to one worker.
func (o *accountsOptions) on(do func(context.Context, string) error) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		if err := units.ValidName(name); err != nil {
			return err
		}
		return do(ctx, name)
	}
}

func workerFileOf(name string) string { return filepath.Join(paths.WorkerSettings, name+".toml") }
func workerHomeOf(name string) string { return filepath.Join(paths.WorkerHomes, name) }

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
