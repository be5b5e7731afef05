package hands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	Mark   string         // distinguishes the sessions from others of the same user
	Client *client.Client // of codex-runner
	// Idle is how long the session stays open while no exec-server runs, as far as codex-runner allows it.
	Idle time.Duration
	// Elsewhere has the hands on another host, and neither a session of codex-runner nor its settings; nil: they are
	// here.
	Elsewhere *Elsewhere
	Dir       string // of the record, which outlives this process
	Program   string // codex, as the session sees it
	Source    Source
	Limits    wire.Limits
	// Send makes a directory known to codex-runner, and returns the key of its repository and the commit.
	Send   func(ctx context.Context, dir, ref string) (repository, commit string, err error)
	Status func(words string) // for people, while Open waits; may be nil
	// Renewed is called when the workspace is another checkout while codex runs; may be nil.
	Renewed func()
	Logger  *slog.Logger
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

	commands   commands
	announcing sync.Mutex // a thread gets each item once
	took       *taken     // elsewhere
	pace       pace

	mu     sync.Mutex
	record record
	number int    // of the command with the exec-server
	token  string // of the exec-server
}

// New reads the record of an earlier process.
func New(o Options) (*Hands, error) {
	h := &Hands{Options: o, pace: pace{probeEvery, probeBound, probeAgain}}
	if h.Status == nil {
		h.Status = func(string) {}
	}
	if h.Renewed == nil {
		h.Renewed = func() {}
	}
	var err error
	if o.Elsewhere != nil {
		h.took = newTaken(o.Dir, o.Logger)
		return h, nil
	}
	h.record, err = ownRecord(o.Dir, o.Logger)
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
// and returns when another one serves, in the same workspace if codex-runner still has that.
func (h *Hands) Open(ctx context.Context) error {
	if h.Elsewhere != nil {
		return far{h}.open(ctx)
	}
	h.Status("Starting: the hands: codex-runner is asked for the session")
	gone := ""
	for {
		if err := (lifecycle{h}).start(ctx, gone); err != nil {
			return fmt.Errorf("the hands: %w", explained(err))
		}
		h.Status("Starting: the hands: the session is made ready")
		ended, err := h.await(ctx)
		switch {
		case err != nil:
			return err
		case ended == nil:
			memory{h}.served()
			return nil
		}
		if gone = (lifecycle{h}).lacksWorkspace(ended); gone == "" {
			return fmt.Errorf("the hands do not start: %s (codex-runner logs %s)", ended.Text,
				h.Session())
		}
	}
}

// await returns when the exec-server serves, or how it has ended.
func (h *Hands) await(ctx context.Context) (*outcome.Outcome, error) {
	id, number := h.running()
	for {
		stream, err := h.Client.AwaitPort(ctx, id, client.ExecServerPort, lookEvery)
		if err == nil {
			return nil, stream.Close()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, err := h.Client.Session(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("the hands: %w", explained(err))
		}
		for _, c := range s.Commands {
			if c.Number == number && c.Outcome != nil {
				return c.Outcome, nil
			}
		}
	}
}

// served records that codex can work in the session.
func (h memory) served() {
	if !h.hasServed() {
		h.update(func(r *record) { r.Served = true })
	}
}

func (h memory) hasServed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.record.Served
}

// lacksWorkspace is why the session has no workspace any more; empty: it has one, or the first command has failed. The
// note of a set-up quotes files of the repository.
func (h lifecycle) lacksWorkspace(ended *outcome.Outcome) string {
	if _, number := h.running(); number == 1 || ended == nil || ended.Word != outcome.WorkspaceFailed ||
		!session.HasLostFiles(strings.TrimSuffix(ended.Text, ended.Note)) {
		return ""
	}
	return ended.Text
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
	if h.Elsewhere != nil {
		far{h}.run(ctx)
		return
	}
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		id, n := h.running()
		ended, words := probes{h}.follow(ctx, id, n)
		if ctx.Err() != nil {
			return
		}
		h.Logger.Warn("hands have ended, and start again", "session", id, "reason", words)
		if time.Since(began) > lasting {
			pause = firstPause
		}
		for gone := (lifecycle{h}).lacksWorkspace(ended); ; {
			wait(ctx, pause)
			pause = min(2*pause, lastPause)
			err := lifecycle{h}.start(ctx, gone)
			if err == nil || ctx.Err() != nil {
				break
			}
			h.Logger.Error("hands do not start", "session", id, "error", err)
		}
		memory{h}.renewed(ctx)
	}
}

// mostAwaits bounds the questions whether a new session serves that codex-runner does not answer.
const mostAwaits = 8

// renewed announces a new session as soon as it serves. One that ends before is no checkout: Run makes another one.
func (h memory) renewed(ctx context.Context) {
	pause := firstPause
	for n := 0; n < mostAwaits && !h.hasServed() && ctx.Err() == nil; n++ {
		ended, err := h.await(ctx)
		switch {
		case ended != nil:
			return
		case err == nil:
			h.served()
			h.Renewed()
			return
		}
		wait(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// probes ask an exec-server whether it answers.
type probes struct{ *Hands }

// follow waits for the end of an exec-server, and ends one that does not answer. It returns how it has ended, if that
// is known, in words for people.
func (h probes) follow(ctx context.Context, id string, number int) (ended *outcome.Outcome, words string) {
	during, stop := context.WithCancel(ctx)
	var probing sync.WaitGroup
	probing.Go(func() { h.probe(during, id, number) })
	end, err := h.Client.Wait(ctx, id, number)
	stop()
	probing.Wait()
	switch {
	case err != nil:
		return nil, err.Error()
	case end.Command.Outcome != nil:
		return end.Command.Outcome, end.Command.Outcome.Text
	}
	return nil, "its end is not known"
}

const (
	// probeEvery is how often an exec-server is asked whether it answers, probeBound how long it may take, and
	// mostSilent how often it may fail in a row: a command has its user, and can stop it.
	probeEvery, probeBound, mostSilent = time.Minute, 30 * time.Second, 3
	// probeAgain is the pause after a probe that has failed.
	probeAgain = 5 * time.Second
)

// pace has the times of probes; others in tests.
type pace struct{ every, bound, again time.Duration }

// probe ends an exec-server that does not answer, until ctx ends.
func (h probes) probe(ctx context.Context, id string, number int) {
	pause := h.pace.every
	for silent := 0; ; {
		if wait(ctx, pause); ctx.Err() != nil {
			return
		}
		err := h.answers(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			silent, pause = 0, h.pace.every
			continue
		}
		if _, err := h.Client.Session(ctx, id); err != nil { // it may be codex-runner that does not answer
			continue
		}
		if silent, pause = silent+1, h.pace.again; silent < mostSilent {
			continue
		}
		h.Logger.Warn("hands hang, and are ended", "session", id, "error", err)
		if _, err := h.Client.Cancel(ctx, id, number); err != nil && ctx.Err() == nil {
			h.Logger.Warn("hands do not end", "session", id, "error", err)
		}
		silent, pause = 0, h.pace.every
	}
}

// answers asks the exec-server for a handshake.
func (h probes) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, h.pace.bound, ErrSilent)
	defer cancel()
	c, err := h.connect(ctx)
	if err == nil {
		c.close()
	}
	return err
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
	if h.Elsewhere != nil {
		return far{h}.end(ctx)
	}
	id, n := h.running()
	if n == 0 {
		return nil
	}
	s, err := h.Client.Cancel(ctx, id, n)
	if err == nil {
		_, err = h.Client.AddCommand(ctx, id, lifecycle{h}.diff(s))
	}
	return err
}
