// Package attach connects a person's codex, or an editor, to a remote of this machine.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/units"
)

// Attach is one call of codex-proxy attach.
type Attach struct {
	Remote   string // its name; empty: the only one of this machine
	New      bool   // a new thread
	Thread   string // the name or the id of a thread; empty: the last one
	ReadOnly bool
	Stdio    bool     // JSONL on Stdin and Stdout in place of codex
	Codex    string   // the program, looked up in PATH
	Args     []string // of codex

	Sockets string // the directory of the sockets of remotes
	// Describe asks systemd about a unit.
	Describe func(ctx context.Context, unit string) (units.Description, error)

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// killed is the exit status of a program that a signal has ended, less the signal.
const killed = 128

// Run returns the exit status of codex, at its end.
func (a *Attach) Run(ctx context.Context) (status int, err error) {
	if a.New && (a.Thread != "" || a.ReadOnly) {
		return 0, errors.New("--new makes a thread: leave out --thread and --read-only")
	}
	socket, err := a.find()
	if err != nil {
		return 0, err
	}
	if a.Stdio {
		return 0, a.bridge(ctx, socket)
	}
	type finding struct {
		version
		err error
	}
	own := make(chan finding, 1) // beside the wait for the remote
	program, err := a.program()
	if err != nil {
		return 0, err
	}
	go func() {
		v, err := suitable(ctx, program)
		own <- finding{v, err}
	}()
	st, err := a.await(ctx, socket)
	found := <-own
	if err := errors.Join(err, found.err); err != nil {
		return 0, err
	}
	a.compare(found.version, st)
	args, err := a.words(ctx, socket, st)
	if err != nil {
		return 0, err
	}
	status, err = a.run(program, args)
	if err != nil {
		return 0, err
	}
	if status == 0 || status > killed {
		a.farewell(ctx, socket)
	}
	return status, nil
}

// threadID is the form of codex's ids. A remote is not trusted with the command line of a person: a tool may rule its
// codex.
var threadID = lazyregexp.New(`^[0-9A-Za-z][0-9A-Za-z-]*$`)

// words are the arguments of codex.
func (a *Attach) words(ctx context.Context, socket string, st remotes.Status) ([]string, error) {
	remote := []string{"--remote", "unix://" + socket}
	thread := st.Last
	if a.New {
		thread = ""
	}
	if a.Thread != "" {
		var err error
		if thread, err = remoteapi.FindThread(ctx, socket, a.Thread); err != nil {
			return nil, fmt.Errorf("the remote %s: %w", a.Remote, err)
		}
	}
	switch {
	case thread != "" && !threadID.MatchString(thread): // in a command line it could be anything
		return nil, fmt.Errorf("the remote %s names a thread %.60q, which is no id: codex-proxy attach --new %[1]s",
			a.Remote, thread)
	case thread != "":
		return append(append([]string{"resume", thread}, remote...), a.Args...), nil
	case a.ReadOnly:
		return nil, fmt.Errorf("there is nothing to watch yet: the remote %s has no thread: "+
			"codex-proxy attach %[1]s begins one", a.Remote)
	}
	return append(remote, a.Args...), nil
}
