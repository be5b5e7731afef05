package hands

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/url"
	"path"
	"time"

	"github.com/coder/websocket/wsjson"
)

// Process is a program to run in the hands.
type Process struct {
	Command
	Env map[string]string
	Own bool // of this program: the journal has none of these
	// Cap bounds each of its two streams, in bytes; the rest is dropped.
	Cap int
	// Output, unless nil, gets the streams as they are written, and Ended's are empty then. last means that the rest of
	// the stream is dropped.
	Output func(stream string, data []byte, last bool)
}

// Ended is the end of a process.
type Ended struct {
	Stdout, Stderr []byte
	Cut            bool // more was written
	Status         int
	Took           time.Duration
}

// started are the parameters of process/start.
type started struct {
	startProcess

	EnvPolicy map[string]any    `json:"envPolicy"`
	Env       map[string]string `json:"env"`
	TTY       bool              `json:"tty"`
	PipeStdin bool              `json:"pipeStdin"`
	Arg0      *string           `json:"arg0"`
	Sandbox   *string           `json:"sandbox"` // the session is one
	Managed   bool              `json:"enforceManagedNetwork"`
	Network   *string           `json:"managedNetwork"`
}

// output is the notification of output.
type output struct {
	Stream string `json:"stream"`
	Chunk  []byte `json:"chunk"`
}

// errEnded means that the exec-server has ended with the process.
var errEnded = errors.New("the hands have ended with the command, and start again")

// Execute runs a process to its end. The end of ctx ends it.
func (h *Hands) Execute(ctx context.Context, p Process) (Ended, error) {
	c, err := h.connect(ctx)
	if err != nil {
		return Ended{}, err
	}
	defer c.close()
	if !p.Own {
		h.Note(p.Command)
	}
	r := running{process: p, began: time.Now(), id: rand.Text()}
	var refused *refusedError
	if h.Elsewhere != nil && !p.Own && c.session != "" {
		h.took.began(c.session)
		h.took.started(c.session, r.id)
		defer func() {
			if r.exited || refused != nil {
				h.took.left(c.session)
			}
		}()
	}
	// The end of a context closes a connection, which has to pass on that the process ends.
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = wsjson.Write(reading, c.ws, map[string]any{"id": terminateID, "method": terminateMethod,
			"params": map[string]string{"processId": r.id}})
		wait(reading, terminateBound)
		cancel()
	})()
	if _, err := c.call(reading, startMethod, r.params(), r.take); err != nil {
		refused, _ = errors.AsType[*refusedError](err)
		return Ended{}, cmp.Or(context.Cause(ctx), err) // a start that is given up is refused
	}
	for !r.closed {
		m, err := c.read(reading)
		if err != nil && r.exited { // another program has its output open
			break
		}
		if err != nil {
			return r.ended, cmp.Or(context.Cause(ctx), errEnded)
		}
		if r.take(m); m.Method == exitedMethod {
			defer time.AfterFunc(drainBound, cancel).Stop()
		}
	}
	r.ended.Took = time.Since(r.began)
	return r.ended, context.Cause(ctx)
}

const (
	// terminateID is the ID of the request that ends a process.
	terminateID = 1 << 20
	// terminateMethod is the request.
	terminateMethod = "process/terminate"
	// terminateBound bounds the end of a process then.
	terminateBound = 5 * time.Second
	// drainBound bounds the wait for the end of the streams after the end of a process.
	drainBound = 2 * time.Second
	// exitedMethod reports the end of a process.
	exitedMethod = "process/exited"
)

// running is a process that runs.
type running struct {
	process Process
	id      string
	began   time.Time
	ended   Ended
	passed  map[string]int // bytes of each stream
	exited  bool
	closed  bool
}

func (r *running) params() started {
	s := started{Env: r.process.Env, EnvPolicy: map[string]any{"inherit": "all", "ignoreDefaultExcludes": true,
		"exclude": []string{}, "set": struct{}{}, "includeOnly": []string{}}}
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	s.ID, s.Argv, s.Dir = r.id, r.process.Argv, fileURL(r.process.Dir)
	s.Metadata.Thread = r.process.Thread
	return s
}

// fileURL is a path as exec-server takes it; one that is relative lies in the workspace.
func fileURL(at string) string {
	if !path.IsAbs(at) {
		at = path.Join(Directory, at)
	}
	return (&url.URL{Scheme: "file", Path: path.Clean(at)}).String()
}

// take takes a notification.
func (r *running) take(m message) {
	switch m.Method {
	case "process/output":
		var o output
		if json.Unmarshal(m.Params, &o) == nil {
			r.output(o)
		}
	case exitedMethod:
		r.exited = true
		var e struct {
			Status int `json:"exitCode"`
		}
		_ = json.Unmarshal(m.Params, &e) // else it is 0
		r.ended.Status = e.Status
	case "process/closed":
		r.closed = true
	}
}

// output takes a piece of a stream, up to the cap.
func (r *running) output(o output) {
	if r.passed == nil {
		r.passed = map[string]int{}
	}
	room := r.process.Cap - r.passed[o.Stream]
	if room <= 0 && len(o.Chunk) > 0 {
		r.ended.Cut = true
		return
	}
	whole := len(o.Chunk) <= room
	if !whole {
		o.Chunk, r.ended.Cut = o.Chunk[:room], true
	}
	r.passed[o.Stream] += len(o.Chunk)
	switch {
	case r.process.Output != nil:
		r.process.Output(o.Stream, o.Chunk, !whole)
	case o.Stream == "stderr":
		r.ended.Stderr = append(r.ended.Stderr, o.Chunk...)
	default:
		r.ended.Stdout = append(r.ended.Stdout, o.Chunk...)
	}
}
