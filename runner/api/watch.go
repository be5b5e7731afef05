package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

const (
	// watchPause is the least time between two looks for one watcher.
	watchPause = 100 * time.Millisecond
	// watchEvery bounds how late a watcher learns of a change that no command has made, such as a removal.
	watchEvery = 10 * time.Second
	// maxWatchers bounds the watchers of each user.
	maxWatchers = 8
)

// places counts the watchers of each user.
type places struct {
	mu    sync.Mutex
	taken map[uint32]int
}

// take takes a place, and returns the function that leaves it; nil: there is none.
func (p *places) take(uid uint32) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[uid] >= maxWatchers {
		return nil
	}
	p.taken[uid]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.taken[uid]--; p.taken[uid] == 0 {
			delete(p.taken, uid)
		}
	}
}

// watch sends the state of the daemon and the newest sessions, and again at each change if the request follows.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, c caller) error {
	page, err := pageOf(r, c)
	if err != nil {
		return err
	}
	follow, err := boolean(r, "follow")
	if err != nil {
		return err
	}
	leave := s.watchers.take(c.UID)
	if leave == nil {
		return &wire.Error{Code: wire.TooMany, Message: "8 programs of yours watch the sessions",
			Remedy: "end one of them"}
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.done, cancel)()
	v := &watcher{server: s, page: page, to: newResponse(w), sent: map[string][sha256.Size]byte{}}
	if err := v.look(ctx); err != nil || !follow {
		return err
	}
	_ = v.follow(ctx)           // the client has gone, or the daemon stops
	panic(http.ErrAbortHandler) // which is not the end of the sessions
}

// watcher is one request that watches.
type watcher struct {
	server *Server
	page   store.Page
	to     response
	begun  bool
	status []byte
	sent   map[string][sha256.Size]byte // the hash of each session as it was sent last, by its ID
}

func (v *watcher) follow(ctx context.Context) error {
	late := time.NewTicker(watchEvery)
	defer late.Stop()
	pause := time.NewTimer(watchPause)
	defer pause.Stop()
	for {
		changed := v.server.Runner.Queue.Changed()
		if err := v.look(ctx); err != nil {
			return err
		}
		pause.Reset(watchPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-late.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look sends the parts that have changed.
func (v *watcher) look(ctx context.Context) error {
	status, err := v.server.statusNow(ctx)
	if err != nil {
		return err
	}
	list, err := v.server.Runner.Store.Sessions.List(ctx, v.page)
	if err != nil {
		return err
	}
	line, err := v.change(status, list.Sessions)
	if err != nil || line == nil {
		return err
	}
	if !v.begun {
		v.to.Header().Set("Content-Type", "application/x-ndjson")
		v.begun = true
	}
	return errors.Join(v.to.send(line), v.to.flush())
}

// change is a line with the parts that have changed; nil: none.
func (v *watcher) change(status wire.Status, sessions []wire.Session) ([]byte, error) {
	c := wire.Watched{Whole: !v.begun}
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(raw, v.status) {
		c.Status, v.status = &status, raw
	}
	now := map[string][sha256.Size]byte{}
	for _, s := range sessions {
		s = brief(s)
		raw, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		now[s.ID] = sha256.Sum256(raw)
		if now[s.ID] != v.sent[s.ID] {
			c.Sessions = append(c.Sessions, s)
		}
	}
	for id := range v.sent {
		if _, is := now[id]; !is {
			c.Removed = append(c.Removed, id)
		}
	}
	v.sent = now
	if !c.Whole && c.Status == nil && len(c.Sessions)+len(c.Removed) == 0 {
		return nil, nil
	}
	line, err := json.Marshal(c)
	return append(line, '\n'), err
}

// maxWatchedText bounds each text of a session for watchers, and all arguments of a command together, in bytes.
const maxWatchedText = 512

// brief is a session with short texts. A user may give a command megabytes of arguments; GET of the session has them.
func brief(s wire.Session) wire.Session {
	s.Repository, s.Ref, s.Secrets = cut(s.Repository), cut(s.Ref), wire.Short(s.Secrets, maxWatchedText)
	s.Commands = slices.Clone(s.Commands)
	for i := range s.Commands {
		c := &s.Commands[i]
		c.Args, c.Directory = wire.Short(c.Args, maxWatchedText), cut(c.Directory)
		c.ArtifactsFault = cut(c.ArtifactsFault)
		if c.Outcome != nil {
			o := *c.Outcome
			o.Text, o.Note, c.Outcome = cut(o.Text), cut(o.Note), &o
		}
	}
	return s
}

func cut(text string) string {
	if len(text) <= maxWatchedText {
		return text
	}
	return strings.ToValidUTF8(text[:maxWatchedText], "") + "…"
}
