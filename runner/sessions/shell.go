package sessions

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/terminal"
	"codex-proxy/runner/client"
)

// Shell is one command line that opens a shell in the sandbox of a session.
type Shell struct {
	Client *client.Client
	Stdin  io.Reader // a terminal
	Term   string    // $TERM
	// Resized are the changes of the terminal's size (SIGWINCH).
	Resized <-chan os.Signal
}

// Open opens the shell, and returns when it has ended: an error of cli.Exit has its exit status.
func (s Shell) Open(ctx context.Context, id string) error {
	t, err := terminal.Open(s.Stdin)
	if errors.Is(err, terminal.ErrNone) {
		return errors.New("shell works in a terminal, and the standard input is none: use run --session for scripts")
	}
	if err != nil {
		return err
	}
	defer t.Close()
	shell, err := s.Client.Shell(ctx, id, s.Term, sizeOf(t))
	if err != nil {
		return Status(err, cli.Failure)
	}
	if err := t.Raw(); err != nil {
		return errors.Join(err, shell.Close())
	}
	status, err := s.serve(ctx, t, shell)
	if restored := t.Restore(); err == nil {
		err = restored
	}
	if err != nil {
		return err
	}
	return cli.Exit(status&0xff, nil)
}

// serve connects the terminal and the shell until the shell has ended.
func (s Shell) serve(ctx context.Context, t *terminal.Terminal, shell *client.Shell) (int, error) {
	ctx, stop := context.WithCancel(ctx)
	var rest sync.WaitGroup
	rest.Go(func() {
		// Without the other methods of a file, which io.Copy would use. Run returns the error, too.
		_, _ = io.Copy(shell, struct{ io.Reader }{t})
	})
	rest.Go(func() { resize(ctx, s.Resized, t, shell) })
	status, err := shell.Run(ctx, t)
	stop()
	_ = shell.Close() // it has ended
	if ended := t.EndReading(); err == nil {
		err = ended
	}
	rest.Wait()
	return status, err
}

// resize passes changes of the size on.
func resize(ctx context.Context, resized <-chan os.Signal, t *terminal.Terminal, shell *client.Shell) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
			if err := shell.Resize(sizeOf(t)); err != nil {
				return // the connection has ended, as Run finds, too
			}
		}
	}
}

func sizeOf(t *terminal.Terminal) client.Size {
	rows, columns := t.Size()
	return client.Size{Rows: rows, Columns: columns}
}
