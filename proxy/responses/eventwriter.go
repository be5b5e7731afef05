package responses

import (
	"errors"
	"io"
	"syscall"
	"time"

	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/eventlog"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/responses/eventstream"
)

// eventWriter sends the events of a response as they arrive.
type eventWriter interface {
	write([]eventstream.Event) error
	Flush() error
	Keepalive() error
}

// sse sends events as server-sent events.
type sse struct{ *answer.Stream }

func (s sse) write(events []eventstream.Event) error {
	return s.Write(func(w io.Writer) error {
		for _, e := range events {
			if err := eventstream.Write(w, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// logged writes the events of a background response to their log. If they cannot be written, the response fails: its
// clients would miss them. It belongs to the goroutine of the response.
type logged struct {
	*background
	log    *eventlog.Writer
	count  int  // events so far
	failed bool // the journal has the failure of the log
}

func (l *logged) write(events []eventstream.Event) error {
	for _, e := range events {
		if err := eventstream.Write(l.log, e); err != nil {
			return l.check(err)
		}
		l.count++
	}
	return nil
}

// Flush implements eventWriter.
func (l *logged) Flush() error { return l.check(l.log.Flush()) }

// Keepalive implements eventWriter: followers have their own.
func (l *logged) Keepalive() error { return nil }

// finish writes the last events.
func (l *logged) finish(events []eventstream.Event) error {
	if err := l.write(events); err != nil {
		return err
	}
	return l.Flush()
}

// check reports the failure of the log once, and returns it as clients see it.
func (l *logged) check(err error) error {
	if err == nil {
		return nil
	}
	if !l.failed {
		l.failed = true
		l.Server.Logger.Error("the events of a background response cannot be written", "request_id", l.x.ID,
			"response_id", l.id, "error", err)
	}
	why := "the journal has the reason"
	switch {
	case errors.Is(err, eventlog.ErrFull):
		why = eventlog.ErrFull.Error()
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		why = "the disk of the service is full"
	}
	return openai.Unavailable("responses_unavailable",
		"the events of the response cannot be kept, so that it has ended: "+why, 10*time.Second)
}
