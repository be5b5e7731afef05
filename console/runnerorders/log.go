package runnerorders

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"codex-proxy/console/verbs"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
)

const (
	// maxTail bounds the output that a page gets at once, in bytes: the newest.
	maxTail = 64 << 10
	// logPause is the least time between two parts of an output.
	logPause = 100 * time.Millisecond
)

// part is a part of an output, or its end.
type part struct {
	Text string `json:"text,omitempty"`
	// Cut means that there is output before the text which the page does not get.
	Cut bool         `json:"cut,omitempty"`
	End *wire.LogEnd `json:"end,omitempty"`
}

// log sends the end of an output, and all that is written from then on.
func (s Settings) log(ctx context.Context, w verbs.Words, send verbs.Send) (any, error) {
	if err := s.Running(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n, err := strconv.Atoi(w["command"])
	if err != nil {
		return nil, err
	}
	log := client.Log{Session: w["session"], Command: n, From: math.MaxInt64,
		Sink: func(logs.Chunk) error { return nil }, Lost: func(error) {
			if err := s.Running(ctx); err != nil {
				cancel(err)
			}
		}}
	now, err := s.Client.ReadLog(ctx, log) // for its size
	if err != nil {
		return nil, err
	}
	t := &tail{wake: make(chan struct{}, 1)}
	log.From, log.Follow, log.Sink = max(0, now.Offset-maxTail), true, t.add
	t.cut = log.From > 0
	var last wire.LogEnd
	read := make(chan error, 1)
	go func() {
		var err error
		last, err = s.Client.ReadLog(ctx, log)
		read <- err
	}()
	err = t.pass(read, send)
	cancel(nil)
	if err != nil {
		return nil, err
	}
	return nil, send(part{End: &last})
}

// tail is the output that was read and has not been sent.
type tail struct {
	wake chan struct{} // has a value if there is some

	mu   sync.Mutex // guards the rest
	text []byte
	cut  bool
}

func (t *tail) add(c logs.Chunk) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, c.Data...)
	if more := len(t.text) - maxTail; more > 0 {
		t.text, t.cut = t.text[more:], true
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return nil
}

func (t *tail) take() (p part) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p = part{Text: string(t.text), Cut: t.cut}
	t.text, t.cut = nil, false
	return p
}

// pass sends the output until the reading has ended, and returns its error.
func (t *tail) pass(read <-chan error, send verbs.Send) error {
	var ended error
	for over := false; !over; {
		select {
		case <-t.wake:
		case ended = <-read:
			over = true
		}
		if p := t.take(); p.Text != "" {
			if err := send(p); err != nil {
				return err // the reading ends with its context
			}
		}
		if !over {
			pause := time.NewTimer(logPause)
			select {
			case <-pause.C:
			case ended = <-read:
				over = true
			}
			pause.Stop()
		}
	}
	if p := t.take(); p.Text != "" && ended == nil {
		return send(p)
	}
	return ended
}
