package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"codex-proxy/probes"
)

const (
	// watchPause is the least time between two reports to one watcher: a worker
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
		changed := s.changes.wait()
		line, err := json.Marshal(s.report())
		if err != nil {
			return // the types of a report can be marshalled
		}
		if !bytes.Equal(line, sent) {
			sent = line
			if _, err := w.Write(append(line, '\n')); err != nil || flush.Flush() != nil {
				return // the watcher has gone
			}
			pause(r, watchPause)
		}
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
	received, err := c.watchOne(ctx, each)
	for received && err == nil && ctx.Err() == nil {
		received, err = c.watchNext(ctx, each)
	}
	if err == nil && ctx.Err() == nil {
		err = errGone
	}
	return err
}

// watcher takes a report; raw is its JSON.
type watcher = func(r probes.Report, raw []byte) error

// watchNext is watchOne for the next daemon, if there is one soon. The one before may
// still accept, and then sends nothing.
func (c *Client) watchNext(ctx context.Context, each watcher) (received bool, err error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	bound := time.AfterFunc(nextBound, cancel)
	defer bound.Stop()
	for {
		received, err = c.watchOne(bounded, func(r probes.Report, raw []byte) error {
			bound.Stop()
			return each(r, raw)
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

// watchOne is Watch for one daemon; received reports whether that has sent a report.
// Its end is no error.
func (c *Client) watchOne(ctx context.Context, each watcher) (received bool, err error) {
	res, err := c.do(ctx, http.MethodGet, "/v1/status/watch", nil)
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
		var r probes.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return received, fmt.Errorf("cannot read the report: %w", err)
		}
		received = true
		if err := each(r, lines.Bytes()); err != nil {
			return received, err
		}
	}
	return received, nil
}
