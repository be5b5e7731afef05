package hands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Gate serves the requests of clients about commands and files in the hands, as codex itself has neither.
type Gate struct {
	Hands *Hands
	// Inject adds items to the conversation of a thread, for the model to read; may be nil.
	Inject func(ctx context.Context, thread string, items []any) error
	// Turn is the turn of the model that runs in a thread; empty: none. May be nil.
	Turn func(thread string) string

	finding sync.Mutex // a search computes

	mu       sync.Mutex
	commands map[string]context.CancelFunc // of command/exec with an ID, by client and ID
	searches map[string]*search            // by client and ID
	turns    map[*personsTurn]struct{}     // that run
	resumed  map[string]string             // the thread that a client has just resumed, by client
	forked   map[string]fork               // that a client has just asked for, by client
}

// Client is the client that makes a request.
type Client interface {
	// Name is different for each of the clients that are attached, and User the user, for the journal.
	Name() string
	User() string
	// Answer sends the result of the request, once. Notify sends a notification.
	Answer(result any) error
	Notify(method string, params any) error
}

// served are the requests that Gate serves.
func (g *Gate) served() map[string]func(ctx context.Context, of Client, params []byte) error {
	return map[string]func(context.Context, Client, []byte) error{
		"command/exec": g.execute, "command/exec/terminate": g.terminate,
		"command/exec/write": noInput, "command/exec/resize": noInput,
		"thread/shellCommand": g.shellCommand, interruptMethod: shells{g}.interrupt,
		"fs/readFile": g.readFile, "fs/getMetadata": g.file("fs/getMetadata"),
		"fs/readDirectory": g.file("fs/readDirectory"),
		"fs/watch":         noWatch, "fs/unwatch": noWatch,
		"fuzzyFileSearch": g.search, "fuzzyFileSearch/sessionStart": g.startSearch,
		"fuzzyFileSearch/sessionUpdate": g.updateSearch, "fuzzyFileSearch/sessionStop": g.stopSearch,
	}
}

// Serves reports whether Gate serves a request in place of codex.
func (g *Gate) Serves(method string, params []byte) bool {
	if method == interruptMethod {
		return shells{g}.isOfShell(params)
	}
	_, is := g.served()[method]
	return is
}

// Serve serves a request. The error is its refusal. A command has a bound of its own.
func (g *Gate) Serve(ctx context.Context, of Client, method string, params []byte) error {
	ctx, cancel := timed(ctx, method)
	defer cancel()
	return g.served()[method](ctx, of, params)
}

func timed(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	if method == "command/exec" || method == "thread/shellCommand" {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, longestRequest, ErrSilent)
}

// Left ends the processes that a client has started.
func (g *Gate) Left(client string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.resumed, client)
	delete(g.forked, client)
	for key := range g.searches {
		if ofClient(key, client) {
			delete(g.searches, key)
		}
	}
}

func noInput(context.Context, Client, []byte) error {
	return errors.New("a command in the hands has neither input nor a terminal: ask codex to run it")
}

func noWatch(context.Context, Client, []byte) error {
	return errors.New("files of the hands are not watched for clients: read them again")
}

// ErrSilent means that the exec-server is stopped or blocked.
var ErrSilent = errors.New("the hands do not answer in time: codex-proxy remotes stop ends those of a remote, and " +
	"the next attach starts them again")

// decode reads parameters.
func decode[T any](params []byte) (v T, err error) {
	if err := json.Unmarshal(params, &v); err != nil {
		return v, fmt.Errorf("its parameters do not parse: %w", err)
	}
	return v, nil
}

const (
	// longestCommand bounds a command of a client without a bound of its own.
	longestCommand = time.Hour
	// longestRequest bounds another request of a client.
	longestRequest = 30 * time.Second
	// mostOutput bounds each stream of a command of a client, in bytes.
	mostOutput = 256 << 10
)

// commandParams are the parameters of command/exec.
type commandParams struct {
	Command []string           `json:"command"`
	Dir     string             `json:"cwd"`
	Env     map[string]*string `json:"env"`
	ID      string             `json:"processId"`
	Timeout int64              `json:"timeoutMs"`
	Cap     int                `json:"outputBytesCap"`
	Stream  bool               `json:"streamStdoutStderr"`
	Stdin   bool               `json:"streamStdin"`
	TTY     bool               `json:"tty"`
}

// execute is command/exec.
func (g *Gate) execute(ctx context.Context, of Client, params []byte) error {
	p, err := decode[commandParams](params)
	switch {
	case err != nil:
		return err
	case len(p.Command) == 0:
		return errors.New("its command is empty")
	case p.TTY || p.Stdin:
		return noInput(ctx, of, nil)
	}
	ctx, cancel := bounded(ctx, p.Timeout)
	defer cancel()
	if p.ID != "" {
		defer g.keep(of.Name()+" "+p.ID, cancel)()
	}
	process := Process{
		Command: Command{User: of.User(), Dir: place(p.Dir), Argv: p.Command},
		Cap:     limit(p.Cap),
		Env:     map[string]string{},
	}
	for name, value := range p.Env {
		if value != nil {
			process.Env[name] = *value
		}
	}
	if p.Stream {
		process.Output = func(stream string, data []byte, last bool) {
			_ = of.Notify("command/exec/outputDelta", map[string]any{ // it may have gone
				"processId": p.ID, "stream": stream, "deltaBase64": data, "capReached": last,
			})
		}
	}
	ended, err := g.Hands.Execute(ctx, process)
	if err != nil {
		return err
	}
	return of.Answer(map[string]any{
		"exitCode": ended.Status, "stdout": fitted(string(ended.Stdout), fitEach),
		"stderr": fitted(string(ended.Stderr), fitEach),
	})
}

func limit(asked int) int {
	if asked <= 0 || asked > mostOutput {
		return mostOutput
	}
	return asked
}

func bounded(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	bound := longestCommand
	if ms > 0 && ms < bound.Milliseconds() {
		bound = time.Duration(ms) * time.Millisecond
	}
	return context.WithTimeoutCause(ctx, bound, fmt.Errorf("the command has run for %s, which is its bound", bound))
}

// place is the directory of a command.
func place(dir string) string {
	if dir == "" {
		return Directory
	}
	return dir
}

// keep keeps a command for terminate.
func (g *Gate) keep(key string, cancel context.CancelFunc) (forget func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.commands == nil {
		g.commands = map[string]context.CancelFunc{}
	}
	g.commands[key] = cancel
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.commands, key)
	}
}

// terminate is command/exec/terminate.
func (g *Gate) terminate(_ context.Context, of Client, params []byte) error {
	p, err := decode[commandParams](params)
	if err != nil {
		return err
	}
	g.mu.Lock()
	cancel := g.commands[of.Name()+" "+p.ID]
	g.mu.Unlock()
	if cancel == nil {
		return fmt.Errorf("no command %.64q runs", p.ID)
	}
	cancel()
	return of.Answer(struct{}{})
}
