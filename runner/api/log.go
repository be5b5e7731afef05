package api

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/queue"
)

// logOf is a log that a request reads.
type logOf struct {
	*session

	number  int
	offset  int64
	follow  bool
	reader  *logs.Reader   // nil if there is no output yet
	watched *logs.Follower // nil without follow
}

// sink sends a log to a client, in one of the three forms.
type sink interface {
	open(r *logs.Reader)
	next() error  // sends the next part; io.EOF if there is nothing at the moment
	flush() error // has the client get all sent parts
	end(e wire.LogEnd) error
}

func (s *session) getLogs(w http.ResponseWriter, r *http.Request) error {
	l := &logOf{session: s}
	var err error
	if l.number, err = commandOf(r); err != nil {
		return err
	}
	if l.follow, err = boolean(r, "follow"); err != nil {
		return err
	}
	if l.offset, err = offsetOf(r); err != nil {
		return err
	}
	if _, err := l.command(r.Context()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.done, cancel)()
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return l.socket(ctx, w, r)
	}
	if !l.follow {
		if err := l.open(ctx); err != nil {
			return err
		}
		defer l.close()
	}
	kind, to := "application/octet-stream", sink(&raw{response: newResponse(w)})
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		kind, to = "text/event-stream", &events{response: newResponse(w)}
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	l.send(ctx, to)
	return nil
}

func offsetOf(r *http.Request) (int64, error) {
	text, name := r.URL.Query().Get("since_offset"), "since_offset"
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		text, name = last, "Last-Event-ID"
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid(name, "use a number of bytes from 0")
	}
	return n, nil
}

func (l *logOf) command(ctx context.Context) (wire.Command, error) {
	return l.Runner.Command(ctx, l.viewer(), l.id, l.number)
}

// send sends the log. Its status has been sent, so that an error can only end the connection.
func (l *logOf) send(ctx context.Context, to sink) {
	err := l.copy(ctx, to)
	if err != nil && ctx.Err() == nil {
		l.Logger.Debug("a log was not read to its end", "session", l.id, "command", l.number, "error", err)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client must not take this for the end of the log
	}
}

func (l *logOf) copy(ctx context.Context, to sink) error {
	if l.follow {
		if err := to.flush(); err != nil { // the head of the answer
			return err
		}
		if err := l.await(ctx); err != nil {
			return err
		}
		if err := l.open(ctx); err != nil {
			return err
		}
		defer l.close()
	}
	if l.reader != nil {
		to.open(l.reader)
		if err := l.read(ctx, to); err != nil {
			return err
		}
	}
	return l.end(ctx, to)
}

// read sends the log up to its end or, without follow, up to its present end.
func (l *logOf) read(ctx context.Context, to sink) error {
	for {
		err := to.next()
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if err := to.flush(); err != nil || !l.follow {
			return err
		}
		if err := l.watched.Wait(ctx); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (l *logOf) end(ctx context.Context, to sink) error {
	command, err := l.command(ctx)
	if err != nil {
		return err
	}
	end := wire.LogEnd{Command: command}
	output, _ := l.Runner.Log(l.id, l.number)
	if info, err := os.Stat(output); err == nil {
		end.Offset = info.Size()
	}
	if err := to.end(end); err != nil {
		return err
	}
	return to.flush()
}

// await waits until the command has begun, and so its log.
func (l *logOf) await(ctx context.Context) error {
	for {
		changed := l.Runner.Queue.Changed()
		c, err := l.command(ctx)
		if err != nil {
			return err
		}
		switch c.State {
		case wire.CommandRunning, wire.CommandHeld, wire.CommandEnded:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// open opens the log. A command that has not begun has none.
func (l *logOf) open(ctx context.Context) error {
	ended := l.Runner.Runs.Ended(queue.Key{Session: l.id, Number: l.number})
	output, index := l.Runner.Log(l.id, l.number)
	reader, err := logs.Open(output, index, l.offset)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.reader = reader
	if !l.follow {
		if c, err := l.command(ctx); err == nil && c.State == wire.CommandEnded {
			reader.Complete()
		}
		return nil
	}
	l.watched, err = l.Runner.Watcher.Follow(reader, ended)
	return err
}

func (l *logOf) close() {
	if l.watched != nil {
		l.watched.Close()
	}
	if l.reader != nil {
		l.reader.Close()
	}
}
