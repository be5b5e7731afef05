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
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/sessions"
	"codex-proxy/units"
)

// Commands becomes journalctl for the commands that the hands of a remote have executed.
func (r *Remotes) Commands(name string, options ...string) error {
	if err := r.hasHands(name); err != nil {
		return err
	}
	args := []string{"journalctl", "CODEX_REMOTE=" + name, "CODEX_EVENT=remote-command"}
	return notify.Become(append(args, options...))
}

// hasHands is the error of a remote without hands.
func (p *Places) hasHands(name string) error {
	if err := p.known(name); err != nil {
		return err
	}
	s, err := remoteconfig.Load(p.fileOf(name))
	if err == nil && s.Hands == nil {
		err = fmt.Errorf("the remote %s has no [hands] in %s: its codex executes commands itself, and they are in its "+
			"threads", name, s.File)
	}
	return err
}

// Diff prints the changes in the workspace of the hands, or makes a branch of them.
func (r *Remotes) Diff(ctx context.Context, name string) error {
	if err := r.hasHands(name); err != nil {
		return err
	}
	session, err := r.sessionOf(name)
	if err == nil && session == "" {
		err = fmt.Errorf("the remote %[1]s has no session yet: codex-proxy attach %[1]s makes one", name)
	}
	if err != nil {
		return err
	}
	unit, err := r.describe(ctx, units.Remote(name))
	if err != nil {
		return err
	}
	d := sessions.Diff{Client: client.New(r.Runner), Stdout: r.Stdout, Stderr: r.Stderr, Branch: r.Branch,
		Message: fmt.Sprintf("Changes by the remote %s\n\nThey are from the session %s of codex-runner.\n", name, session)}
	defer d.Client.Close()
	if unit.ActiveState == "active" { // else there is no command to wait for
		d.Execute = func(ctx context.Context, begin bool) (stdout, stderr []byte, err error) {
			return remoteapi.Changes(ctx, r.Socket(name), begin)
		}
	}
	return d.Run(ctx, session)
}

// sessionOf is the session of a remote's hands; empty: none yet.
func (p *Places) sessionOf(name string) (session string, err error) {
	for _, home := range p.homesOf(name) {
		if session, err = hands.SessionOf(filepath.Join(home, remotesManager)); session != "" || err != nil {
			break
		}
	}
	return session, err
}

// handsBound bounds the requests to codex-runner of a remove.
const handsBound = time.Minute

// closeHands closes the session of the hands of a remote that is removed, and returns its ID; empty: there is none.
func (p *Places) closeHands(ctx context.Context, name string) (session string, err error) {
	session, err = p.sessionOf(name)
	if session == "" || err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, handsBound)
	defer cancel()
	c := client.New(p.Runner)
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
