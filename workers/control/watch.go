package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"codex-proxy/probes"
)

const (
	// watchPause is the least time between two reports for one watcher: a worker
	// with many short turns changes more often than a person can read.
	watchPause = 100 * time.Millisecond
	// nextBound is how long a watch looks for the next daemon.
	nextBound = time.Second
)

// watch sends the report, one a line, whenever it has changed, until the client
// disconnects or the daemon stops.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	var sent []byte
	for r.Context().Err() == nil {
		changed := s.changes.Next()
		line, err := json.Marshal(s.report())
		if err != nil {
			return // the types of a report can be marshalled
		}
		if !bytes.Equal(line, sent) {
			sent = line
			if _, err := w.Write(append(line, '\n')); err != nil || flush.Flush() != nil {
				return // the watcher has gone
			}
		}
		pause(r, watchPause) // even without a line: a report is work
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	}
}

func pause(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
}

// errGone is the end of a daemon without a next one.
var errGone = errors.New("codex-proxy has stopped, or was restarted")

// Watch calls each with the report now and after every change of it, until ctx ends,
// each fails or the daemon ends; only the end of ctx is no error. After a reload it
// goes on with the new process.
func (c *Client) Watch(ctx context.Context, each func(r probes.Report, raw []byte) error) error {
	return c.lines(ctx, "/v1/status/watch", func(raw []byte) error {
		var r probes.Report
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("cannot read the report: %w", err)
		}
		return each(r, raw)
	})
}

// Follow calls each with each line of /v1/watch of these parts: the present state, and then its changes. It ends as
// Watch does.
func (c *Client) Follow(ctx context.Context, of []string, each func(raw []byte) error) error {
	return c.lines(ctx, "/v1/watch?of="+url.QueryEscape(strings.Join(of, ",")), each)
}

// Changes calls changed with each line of /v1/watch of these parts. It ends as Watch does.
func (c *Client) Changes(ctx context.Context, of []string, changed func()) error {
	return c.Follow(ctx, of, func([]byte) error {
		changed()
		return nil
	})
}

// lines calls each with each line of a stream of the daemon.
func (c *Client) lines(ctx context.Context, path string, each func(raw []byte) error) error {
	received, err := c.linesOfOne(ctx, path, each)
	for received && err == nil && ctx.Err() == nil {
		received, err = c.linesOfNext(ctx, path, each)
	}
	if err == nil && ctx.Err() == nil {
		err = errGone
	}
	return err
}

// linesOfNext is linesOfOne for the next daemon, if there is one soon. The one before may
// still accept, and then sends nothing.
func (c *Client) linesOfNext(ctx context.Context, path string, each func(raw []byte) error) (received bool, err error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	bound := time.AfterFunc(nextBound, cancel)
	defer bound.Stop()
	for {
		received, err = c.linesOfOne(bounded, path, func(raw []byte) error {
			bound.Stop()
			return each(raw)
		})
		if received {
			return true, err
		}
		select {
		case <-time.After(movedPause):
		case <-bounded.Done():
			return false, nil
		}
	}
}

// linesOfOne is lines for one daemon; received reports whether that has sent a line. Its end is no error.
func (c *Client) linesOfOne(ctx context.Context, path string, each func(raw []byte) error) (received bool, err error) {
	res, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil && ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		received = true
		if err := each(lines.Bytes()); err != nil {
			return received, err
		}
	}
	return received, nil
}
