package hands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
)

// Directory is the workspace, in the session and, empty, for codex.
const Directory = "/workspace"

// Options configures Hands.
type Options struct {
	Remote  string         // its name
	Client  *client.Client // of codex-runner
	Dir     string         // of the record, which outlives this process
	Program string         // codex, as the session sees it
	Source  Source
	Limits  wire.Limits
	// Send makes a directory known to codex-runner, and returns the key of its repository and the commit.
	Send   func(ctx context.Context, dir, ref string) (repository, commit string, err error)
	Status func(words string) // for people, while Open waits; may be nil
	Logger *slog.Logger
}

// Source is the origin of the workspace.
type Source struct {
	Repo  string `json:"repo"` // a directory or a URL
	Ref   string `json:"ref,omitempty"`
	SetUp string `json:"set_up,omitempty"` // the text of a file of a set-up; empty: the repository's own
}

// Hands is one session and its exec-server. Its methods are safe for concurrent use, except Open and Run, which are
// called once, in this order.
type Hands struct {
	Options

	commands commands

	mu     sync.Mutex
	record record
	number int    // of the command with the exec-server
	token  string // of the exec-server
}

// New reads the record of an earlier process.
func New(o Options) (*Hands, error) {
	h := &Hands{Options: o}
	if h.Status == nil {
		h.Status = func(string) {}
	}
	var err error
	h.record, err = readRecord(o.Dir)
	return h, err
}

const (
	// firstPause and lastPause are the pauses between two attempts to start an exec-server.
	firstPause, lastPause = 100 * time.Millisecond, 10 * time.Second
	// lasting is how long an exec-server has to run for the next pause to be the first one again.
	lasting = time.Minute
	// lookEvery is how often Open looks at a command that does not run yet.
	lookEvery = 5 * time.Second
)

// Open ends the processes of an earlier exec-server, so that none of its commands goes on beside the turn that follows,
// and returns when another one serves in the same workspace.
func (h *Hands) Open(ctx context.Context) error {
	h.Status("Starting: the hands: codex-runner is asked for the session")
	if err := h.start(ctx); err != nil {
		return fmt.Errorf("the hands of the remote: %w", explained(err))
	}
	h.Status("Starting: the hands: the session is made ready")
	for {
		stream, err := h.Client.AwaitPort(ctx, h.record.Session, client.ExecServerPort, lookEvery)
		if err == nil {
			return stream.Close()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch ended, err := h.outcome(ctx); {
		case err != nil:
			return fmt.Errorf("the hands of the remote: %w", explained(err))
		case ended != nil:
			return fmt.Errorf("the hands of the remote do not start: %s (codex-runner logs %s)", ended.Text,
				h.record.Session)
		}
	}
}

// outcome is how the exec-server has ended, or nil.
func (h *Hands) outcome(ctx context.Context) (*outcome.Outcome, error) {
	s, err := h.Client.Session(ctx, h.record.Session)
	if err != nil {
		return nil, err
	}
	for _, c := range s.Commands {
		if c.Number == h.number {
			return c.Outcome, nil
		}
	}
	return nil, nil
}

// explained adds the remedy to the error of a client.
func explained(err error) error {
	switch {
	case errors.Is(err, client.ErrForbidden):
		return fmt.Errorf("%w: systemctl daemon-reload gives the remote the group codex-runner", err)
	case errors.Is(err, client.ErrNotRunning):
		return fmt.Errorf("%w: install codex-runner, or systemctl start codex-runner.socket", err)
	}
	return err
}

// Run starts another exec-server in the session whenever one has ended, until ctx ends.
func (h *Hands) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		id, n := h.running()
		end, err := h.Client.Wait(ctx, id, n)
		if ctx.Err() != nil {
			return
		}
		words := "its end is not known"
		if err == nil && end.Command.Outcome != nil {
			words = end.Command.Outcome.Text
		} else if err != nil {
			words = err.Error()
		}
		h.Logger.Warn("the hands of a remote have ended, and start again", "remote", h.Remote, "session", id,
			"reason", words)
		if time.Since(began) > lasting {
			pause = firstPause
		}
		for {
			wait(ctx, pause)
			pause = min(2*pause, lastPause)
			if err = h.start(ctx); err == nil || ctx.Err() != nil {
				break
			}
			h.Logger.Error("the hands of a remote do not start", "remote", h.Remote, "session", id, "error", err)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (h *Hands) running() (id string, number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.record.Session, h.number
}

// Session is the session of codex-runner.
func (h *Hands) Session() string {
	id, _ := h.running()
	return id
}

// Close ends the exec-server with all of its processes. The session stays, with its workspace. It takes the changes, so
// that codex-runner has them when it closes the session.
func (h *Hands) Close(ctx context.Context) error {
	id, n := h.running()
	if n == 0 {
		return nil
	}
	s, err := h.Client.Cancel(ctx, id, n)
	if err == nil {
		_, err = h.Client.AddCommand(ctx, id, wire.NewCommand{Args: session.DiffOrder{Commit: s.Commit}.Args()})
	}
	return err
}

// start makes an exec-server the next command of the session, or of a new one.
func (h *Hands) start(ctx context.Context) error {
	token := rand.Text() + rand.Text()
	command := client.ExecServer(h.Program, token)
	command.Limits = h.Limits
	id, number, err := h.next(ctx, command)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.record.Session, h.record.Source, h.number, h.token = id, h.Source, number, token
	made := h.record
	h.mu.Unlock()
	return made.write(h.Dir)
}

// next queues the command, in the session that is there if it has the same source.
func (h *Hands) next(ctx context.Context, command wire.NewCommand) (id string, number int, err error) {
	id = h.Session()
	if id != "" && h.record.Source != h.Source {
		if _, err := h.Client.Cancel(ctx, id, 0); err != nil && !refusedAs(err, wire.NotFound, wire.Conflict) {
			return "", 0, err
		}
		id = ""
	}
	if id != "" {
		number, err = h.again(ctx, id, command)
		if err == nil || !refusedAs(err, wire.NotFound, wire.Conflict) {
			return id, number, err
		}
		h.Logger.Warn("the session of the hands is closed, and a new one begins", "remote", h.Remote, "session", id,
			"reason", err.Error())
	}
	id, err = h.create(ctx, command)
	return id, 1, err
}

// again ends the processes of the session, and queues the command.
func (h *Hands) again(ctx context.Context, id string, command wire.NewCommand) (number int, err error) {
	s, err := h.Client.Session(ctx, id)
	if err != nil {
		return 0, err
	}
	for _, c := range s.Commands {
		if c.State == wire.CommandEnded {
			continue
		}
		if _, err := h.Client.Cancel(ctx, id, c.Number); err != nil && !refusedAs(err, wire.Conflict) {
			return 0, err
		}
		if _, err := h.Client.Wait(ctx, id, c.Number); err != nil {
			return 0, err
		}
	}
	added, err := h.Client.AddCommand(ctx, id, command)
	return added.Number, err
}

func (h *Hands) create(ctx context.Context, command wire.NewCommand) (id string, err error) {
	n := wire.NewSession{Repository: h.Source.Repo, Ref: h.Source.Ref, SetUp: h.Source.SetUp,
		Commands: []wire.NewCommand{command}}
	if isDirectory(h.Source.Repo) {
		if n.Repository, n.Ref, err = h.Send(ctx, h.Source.Repo, h.Source.Ref); err != nil {
			return "", err
		}
	}
	made, err := h.Client.CreateSession(ctx, n)
	return made.ID, err
}

func isDirectory(repo string) bool { return repo != "" && repo[0] == '/' }

// refusedAs reports whether codex-runner has refused a request with one of the codes.
func refusedAs(err error, codes ...wire.Code) bool {
	var refused *wire.Error
	if !errors.As(err, &refused) {
		return false
	}
	for _, code := range codes {
		if refused.Code == code {
			return true
		}
	}
	return false
}
