package remotescli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"codex-proxy/notify"
	"codex-proxy/remotes/hands"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/sessions"
)

// Commands becomes journalctl for the commands that the hands of a remote have executed.
func (r *Remotes) Commands(name string, options ...string) error {
	if err := r.hasHands(name); err != nil {
		return err
	}
	args := []string{"journalctl", "CODEX_REMOTE=" + name, "CODEX_EVENT=remote-command"}
	return notify.Become(append(args, options...))
}

// hasHands is the error of a remote whose codex executes its commands itself.
func (r *Remotes) hasHands(name string) error {
	if err := r.known(name); err != nil {
		return err
	}
	s, err := remoteconfig.Load(r.fileOf(name))
	if err == nil && s.Hands == nil {
		err = fmt.Errorf("the remote %s has no [hands] in %s: its codex executes commands itself, and they are in its threads",
			name, s.File)
	}
	return err
}

// handsBound bounds the requests to codex-runner of a remove.
const handsBound = time.Minute

// closeHands closes the session of the hands of a remote that is removed, and returns its ID; empty: there is none.
func (r *Remotes) closeHands(ctx context.Context, name string) (session string, err error) {
	for _, home := range r.homesOf(name) {
		if session, err = hands.SessionOf(filepath.Join(home, remotesManager)); session != "" || err != nil {
			break
		}
	}
	if session == "" || err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, handsBound)
	defer cancel()
	c := client.New(r.Runner)
	defer c.Close()
	// The session keeps the changes that were taken last.
	_ = sessions.Diff{Client: c, Stdout: io.Discard, Stderr: io.Discard}.Run(ctx, session) // it may be closed
	var refused *wire.Error
	if _, err = c.Cancel(ctx, session, 0); errors.As(err, &refused) { // it is closed, or forgotten
		return "", nil
	}
	return session, err
}

// remotesManager is the directory in the home of a remote that its codex cannot see.
const remotesManager = "keeper"
