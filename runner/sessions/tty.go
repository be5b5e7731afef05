package sessions

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"codex-proxy/internal/terminal"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
)

// tty is the terminal of this program, for a command that has one.
type tty struct {
	*terminal.Terminal

	client  *client.Client
	stderr  *serial
	resized <-chan os.Signal
}

// openTTY opens the terminal, and asks for one of its size for the command. Without TTY it does nothing.
func (r *Run) openTTY() error {
	if !r.TTY {
		return nil
	}
	t, err := terminal.Open(r.Stdin)
	if errors.Is(err, terminal.ErrNone) {
		return errors.New("--tty works in a terminal, and the standard input is none: leave it out")
	}
	if err != nil {
		return err
	}
	size := sizeOf(t)
	r.Command.TTY = &wire.TTY{Rows: size.Rows, Columns: size.Columns, Term: r.Term}
	r.tty = &tty{t, r.Client, r.stderr, r.Resized}
	return nil
}

func (t *tty) close() {
	if t != nil {
		_ = t.Close()
	}
}

// begin connects the terminal with a command in the background; end ends that, and leaves the terminal as it was.
func (t *tty) begin(ctx context.Context, id string, n int) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { t.serve(ctx, id, n) })
	return func() {
		cancel()
		serving.Wait()
	}
}

// serve types into the command until that has ended, also when the daemon starts again. Until the command runs, the
// terminal is as it was: Ctrl-C is a signal to this program then, and cancels the command.
func (t *tty) serve(ctx context.Context, id string, n int) {
	defer func() {
		_ = t.Restore()
		t.stderr.raw(false)
	}()
	for {
		var conn *client.Shell
		err := t.client.Again(ctx, func() (err error) {
			conn, err = t.client.Terminal(ctx, id, n, sizeOf(t.Terminal))
			return err
		})
		if err != nil || ctx.Err() != nil {
			return // the command has ended, which its log shows, too
		}
		t.stderr.raw(true)
		if err := t.Raw(); err != nil {
			return
		}
		t.pass(ctx, conn)
	}
}

// pass types into a connection until its end.
func (t *tty) pass(ctx context.Context, conn *client.Shell) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	ctx, stop := context.WithCancel(ctx)
	var typing sync.WaitGroup
	typing.Go(func() {
		// Without the other methods of a file, which io.Copy would use.
		_, _ = io.Copy(conn, struct{ io.Reader }{t})
	})
	typing.Go(func() { resize(ctx, t.resized, t.Terminal, conn) })
	conn.Wait()
	stop()
	_, _ = conn.Close(), t.EndReading()
	typing.Wait()
	_ = t.ResumeReading()
}
