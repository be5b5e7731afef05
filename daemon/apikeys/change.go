package apikeys

import (
	"context"
	"errors"
	"fmt"

	"codex-proxy/workers/control"
)

// change changes the file, and sends it to the running service under the same lock,
// so that the later of two commands wins. written is called between the two.
func (e *Editor) change(ctx context.Context, edit change, written func()) error {
	if e.database != nil {
		return e.database.change(ctx, edit, e.pages.Check, func() {
			written()
			fmt.Fprintln(e.Stderr, "It is in force on every host of the database in a moment.")
		})
	}
	unlock, err := e.File.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	keys, err := e.File.edit(edit, e.pages.Check)
	if err != nil {
		return err
	}
	written()
	if !e.notify {
		return nil
	}
	got, err := control.NewClient(e.Socket).SetKeys(ctx, e.named, keys.Text())
	return e.printOutcome(got, err)
}

// printOutcome prints the running service's outcome of the change.
func (e *Editor) printOutcome(keys control.Keys, err error) error {
	switch {
	case errors.Is(err, control.ErrOtherFile) && !e.applying:
		fmt.Fprintf(e.Stderr, "The file is changed, but %v.\n", err)
		return nil
	case errors.Is(err, control.ErrOtherFile):
		return err
	case errors.Is(err, control.ErrNotRunning):
		fmt.Fprintf(e.Stderr, "The service does not run, or does not listen on %s; "+
			"the change holds from its next start.\n", e.Socket)
		return nil
	case err != nil:
		return fmt.Errorf("the file is changed, but the running service has not taken it over: %w; "+
			"systemctl restart codex-proxy makes it", err)
	case keys.Count == 0:
		fmt.Fprintln(e.Stderr, "The running service has taken it over. "+Keyless(keys))
	default:
		fmt.Fprintln(e.Stderr, "The running service has taken it over.")
	}
	return nil
}
