package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/control"
)

// fail prints an error as "codex-proxy COMMAND: …", one line each, and passes
// on the exit status.
func fail(stderr io.Writer, command string, err error, status int) int {
	fmt.Fprintf(stderr, "codex-proxy %s: %v\n", command, err)
	return status
}

// asRoot says what to do about a file that is not the caller's, as the daemon's
// socket does.
func asRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return fmt.Errorf("%w: %w", err, control.ErrForbidden)
	}
	return err
}

// parseFlags parses and says which exit status ends the command, if any:
// --help is answered with usage on stdout.
func parseFlags(flags *flag.FlagSet, args []string, usage string, stdout, stderr io.Writer) (status int, done bool) {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK, true
	case err != nil:
		return fail(stderr, flags.Name(), fmt.Errorf("%w; see --help", err), exitUsage), true
	}
	return exitOK, false
}

// parseOnlyFlags is parseFlags for a command that takes nothing else.
func parseOnlyFlags(flags *flag.FlagSet, args []string, usage string, stdout, stderr io.Writer) (status int, done bool) {
	status, done = parseFlags(flags, args, usage, stdout, stderr)
	if !done && flags.NArg() > 0 {
		return fail(stderr, flags.Name(), fmt.Errorf("unexpected %q; see --help", flags.Arg(0)), exitUsage), true
	}
	return status, done
}

// configFlags are the options by which a command finds its configuration.
type configFlags struct {
	path string
	set  []string
}

func (c *configFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&c.path, "config", config.DefaultPath, "")
	flags.Func("set", "", func(s string) error {
		c.set = append(c.set, s)
		return nil
	})
}

func (c *configFlags) load() (*config.Config, error) { return config.Load(c.path, c.set) }
