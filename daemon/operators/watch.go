package operators

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"codex-proxy/daemon/recent"
	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

const (
	// maxWatchers bounds the watchers at the same time.
	maxWatchers = 16
	// linePause is the least time between two looks for one watcher.
	linePause = 100 * time.Millisecond
	// patience is how long a watcher may take for one line.
	patience = 5 * time.Second
)

// stream serves GET /v1/watch.
type stream struct {
	report   func() probes.Report
	accounts func() control.Accounts
	keys     func() control.Keys
	recent   *recent.Recent
	changes  *control.Changes
	watched  func() (end func())
	places   chan struct{}
	patience time.Duration
	logger   *slog.Logger
}

var errWatchers = fmt.Errorf("%d programs watch the service, which is the bound; end one of them", maxWatchers)

// serve sends a line whenever one of the wanted parts has changed, until the client disconnects or the daemon stops.
func (s *stream) serve(w http.ResponseWriter, r *http.Request) {
	parts, err := parseParts(r.URL.Query().Get("of"))
	if err != nil {
		control.Refuse(w, http.StatusBadRequest, err)
		return
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		control.Refuse(w, http.StatusServiceUnavailable, errWatchers)
		return
	}
	if slices.Contains(parts, "remotes") || slices.Contains(parts, "status") {
		defer s.watched()()
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if err := s.send(w, r, &reader{parts: parts, sent: map[string][]byte{}}); errors.Is(err, os.ErrDeadlineExceeded) {
		s.logger.Warn("watcher dropped: it does not read", "after", s.patience.String())
	}
}

func (s *stream) send(w http.ResponseWriter, r *http.Request, reader *reader) error {
	to := http.NewResponseController(w)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for r.Context().Err() == nil {
		changed := s.changes.Next()
		line, err := reader.line(s)
		if err != nil {
			return err
		}
		if line != nil {
			if err := to.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
				return err
			}
			if _, err := w.Write(line); err != nil {
				return err
			}
			if err := to.Flush(); err != nil {
				return err
			}
		}
		pause.Reset(linePause) // even without a line: to look at everything is work
		select {
		case <-pause.C:
		case <-r.Context().Done():
		}
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	}
	return nil
}

// events returns an event for each part that the reader wants.
func (s *stream) events(r *reader) (all []Event) {
	wants := func(part string) bool { return slices.Contains(r.parts, part) }
	var report probes.Report
	if wants("status") || wants("remotes") || wants("dependencies") {
		report = s.report()
	}
	if wants("status") {
		all = append(all, Event{Status: &report})
	}
	if wants("accounts") {
		accounts := s.accounts()
		all = append(all, Event{Accounts: &accounts})
	}
	if wants("keys") {
		keys := s.keys()
		all = append(all, Event{Keys: &keys})
	}
	if wants("remotes") {
		all = append(all, Event{Remotes: append([]probes.Remote{}, report.Remotes...)})
	}
	if wants("dependencies") {
		all = append(all, Event{Dependencies: append([]probes.Dependency{}, report.Dependencies...)})
	}
	if wants("history") || wants("requests") {
		all = append(all, s.latest(r, wants("history"), wants("requests"))...)
	}
	return all
}

// latest returns the requests and points that the reader does not have.
func (s *stream) latest(r *reader, points, requests bool) (all []Event) {
	ended, history, whole := s.recent.Since(&r.cursor)
	if whole {
		clear(r.sent)
		ended = append([]recent.Request{}, ended...) // none is a list, too
		all = append(all, Event{Whole: true})
	}
	if points {
		all = append(all, Event{History: &history})
	}
	if requests && (whole || len(ended) > 0) {
		all = append(all, Event{Requests: ended})
	}
	return all
}
