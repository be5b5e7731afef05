package apitest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
)

func (d *Daemon) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", d.status)
	mux.HandleFunc("GET /v1/watch", d.watch)
	mux.HandleFunc("POST /v1/prune", d.prune)
	mux.HandleFunc("POST /v1/sessions", d.create)
	mux.HandleFunc("GET /v1/sessions", d.list)
	mux.HandleFunc("GET /v1/sessions/{id}", d.show)
	mux.HandleFunc("POST /v1/sessions/{id}/commands", d.addCommand)
	mux.HandleFunc("PUT /v1/sessions/{id}/commands/{n}/stdin", d.putStdin)
	mux.HandleFunc("GET /v1/sessions/{id}/commands/{n}/logs", d.logs)
	mux.HandleFunc("POST /v1/sessions/{id}/commands/{n}/terminal", d.terminal)
	mux.HandleFunc("POST /v1/sessions/{id}/cancel", d.cancel)
	mux.HandleFunc("POST /v1/sessions/{id}/release", d.release)
	mux.HandleFunc("POST /v1/sessions/{id}/shell", d.shell)
	mux.HandleFunc("POST /v1/sessions/{id}/ports/{port}", d.port)
	mux.HandleFunc("GET /v1/sessions/{id}/artifacts", d.artifacts)
	mux.HandleFunc("GET /v1/sessions/{id}/artifacts/{artifact}", d.artifact)
	mux.HandleFunc("POST /v1/repositories", d.addRepository)
	mux.HandleFunc("PUT /v1/repositories/{key}/bundle", d.putBundle)
	return mux
}

// find returns a session, or nil. Daemon.mu is held.
func (d *Daemon) find(id string) *session {
	for _, s := range d.sessions {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// with calls do with the session of a request, and refuses one that is not there.
func (d *Daemon) with(w http.ResponseWriter, r *http.Request, do func(*session)) {
	found := false
	d.change(func() {
		if s := d.find(r.PathValue("id")); s != nil {
			found = true
			do(s)
		}
	})
	if !found {
		refuse(w, wire.NotFound, "there is no session "+r.PathValue("id"), "list yours with codex-runner sessions")
	}
}

func (d *Daemon) create(w http.ResponseWriter, r *http.Request) {
	var asked wire.NewSession
	if err := wire.Decode(r.Body, &asked); err != nil {
		refuse(w, wire.InvalidRequest, "the body is no session", err.Error())
		return
	}
	if limit := time.Duration(asked.Commands[0].Limits.Timeout); limit > 24*time.Hour {
		refuse(w, wire.InvalidRequest, "timeout is "+limit.String(), "use at most 24h")
		return
	}
	if asked.DryRun {
		reply(w, http.StatusOK, wire.Plan{Unit: "codex-session@.service", Properties: []string{"MemoryMax=1024"},
			Workspace: "an empty directory", Environment: "none", Network: asked.Network, Commands: asked.Commands,
			Sandbox: wire.PlanSandbox{Path: []string{"/opt/tools"}, Usual: []string{"/usr/bin", "/usr/local/go/bin"},
				Toolchains: []string{"/opt/codex-runner-test"}, Variables: []string{"HTTPS_PROXY"}}})
		return
	}
	d.change(func() {
		s := &session{asked: asked, Session: wire.Session{
			ID: sessionID(len(d.sessions)), Owner: wire.Owner{UID: 1000, Name: "alice"}, Created: Now,
			Repository: asked.Repository, Ref: asked.Ref, Environment: "none", Network: asked.Network,
			State: wire.SessionActive,
		}}
		for _, known := range d.repositories {
			if known.Key == asked.Repository && known.Path != "" { // its ref is a commit
				s.Repository, s.Commit = known.Path, asked.Ref
			}
		}
		d.sessions = append(d.sessions, s)
		for _, c := range asked.Commands {
			d.add(s, c)
		}
		reply(w, http.StatusCreated, s.whole())
	})
}

// sessionID is the ID of the nth session: n in the digits a and b.
func sessionID(n int) string {
	return strings.NewReplacer("0", "a", "1", "b").Replace(fmt.Sprintf("%016b", n))
}

func (d *Daemon) list(w http.ResponseWriter, r *http.Request) {
	limit, before := 100, r.FormValue("before")
	if text := r.FormValue("limit"); text != "" {
		limit, _ = strconv.Atoi(text)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	page := wire.Sessions{Sessions: []wire.Session{}}
	for _, s := range slices.Backward(d.sessions) {
		if before != "" {
			if s.ID == before {
				before = ""
			}
			continue
		}
		if state := r.FormValue("state"); state != "" && state != string(s.State) {
			continue
		}
		if len(page.Sessions) == limit {
			page.Next = page.Sessions[limit-1].ID
			break
		}
		whole := s.whole()
		whole.Commands = whole.Commands[len(whole.Commands)-1:]
		page.Sessions = append(page.Sessions, whole)
	}
	reply(w, http.StatusOK, page)
}

func (d *Daemon) show(w http.ResponseWriter, r *http.Request) {
	d.with(w, r, func(s *session) { reply(w, http.StatusOK, s.whole()) })
}

func (d *Daemon) addCommand(w http.ResponseWriter, r *http.Request) {
	var asked wire.NewCommand
	if err := wire.Decode(r.Body, &asked); err != nil {
		refuse(w, wire.InvalidRequest, "the body is no command", err.Error())
		return
	}
	d.with(w, r, func(s *session) {
		if s.State == wire.SessionClosed {
			refuse(w, wire.Conflict, "the session "+s.ID+" is closed", "run the command in a new session")
			return
		}
		reply(w, http.StatusCreated, d.add(s, asked).state)
	})
}

func (d *Daemon) putStdin(w http.ResponseWriter, r *http.Request) {
	stdin, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	d.with(w, r, func(s *session) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		c := s.commands[n-1]
		if c.state.State != wire.CommandAwaitingStdin {
			refuse(w, wire.Conflict, "the command does not wait for its standard input", "send it once")
			return
		}
		c.stdin, c.state.State = stdin, wire.CommandQueued
		reply(w, http.StatusOK, c.state)
		d.next(s)
	})
}

func (d *Daemon) cancel(w http.ResponseWriter, r *http.Request) {
	var asked wire.Cancel
	if err := wire.Decode(r.Body, &asked); err != nil {
		refuse(w, wire.InvalidRequest, "the body is no cancel", err.Error())
		return
	}
	d.with(w, r, func(s *session) {
		for _, c := range s.commands {
			if asked.Command == 0 || asked.Command == c.Number {
				c.cancel()
			}
		}
		if asked.Command == 0 {
			s.State, s.Closed = wire.SessionClosed, Now
		}
		reply(w, http.StatusOK, s.whole())
	})
}

func (d *Daemon) release(w http.ResponseWriter, r *http.Request) {
	d.with(w, r, func(s *session) {
		for _, c := range s.commands {
			if c.state.State == wire.CommandHeld {
				c.cancel()
			}
		}
		reply(w, http.StatusOK, s.whole())
	})
}
