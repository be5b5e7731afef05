package responses

import (
	"context"

	"codex-proxy/proxy/eventlog"
	"codex-proxy/proxy/openai"
)

// logged writes the events of a background response to their log. A log that cannot be written is given up; the response
// goes on. It belongs to the goroutine of the response.
type logged struct {
	*background
	log   *eventlog.Writer // nil: it was given up
	count int              // events so far
}

func (l *logged) write(events []openai.ResponseEvent) error {
	for _, e := range events {
		if l.log == nil {
			break
		}
		l.count++
		l.check(openai.WriteResponseEvent(l.log, e))
	}
	return nil
}

// Flush implements eventWriter.
func (l *logged) Flush() error {
	if l.log != nil {
		l.check(l.log.Flush())
	}
	return nil
}

// Keepalive implements eventWriter: followers have their own.
func (l *logged) Keepalive() error { return nil }

// check gives the log up after an error.
func (l *logged) check(err error) {
	if err == nil {
		return
	}
	l.Server.Logger.Error("a background response goes on without its events", "request_id", l.x.ID,
		"response_id", l.id, "error", err)
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_ = l.Store.LoseLog(ctx, l.id) // otherwise followers get what is there, and its end is lost
	l.close()
}

// size is how many bytes the log has, 0 without one.
func (l *logged) size() int64 {
	if l.log == nil {
		return 0
	}
	return l.log.Size()
}

// close ends the log, which wakes followers.
func (l *logged) close() {
	if l.log != nil {
		l.log.Close()
		l.log = nil
	}
}
