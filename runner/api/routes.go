package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/disk"
	"codex-proxy/runner/store"
)

func (s *Server) document(w http.ResponseWriter, _ *http.Request, _ caller) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(wire.Document())
	return nil
}

func (s *Server) status(w http.ResponseWriter, r *http.Request, _ caller) error {
	v, err := s.statusNow(r.Context())
	if err == nil {
		answer(w, http.StatusOK, v)
	}
	return err
}

func (s *Server) statusNow(ctx context.Context) (wire.Status, error) {
	v := wire.Status{
		Version: s.Version, Since: s.since, Ready: true,
		MaxSessions: s.Runner.MaxSessions, MaxQueued: s.Runner.MaxQueued,
	}
	if err := s.Runner.Ready(); err != nil {
		v.Ready, v.Reason = false, err.Error()
	}
	v.Running, v.Queued = s.Runner.Queue.Load()
	tally, err := s.Runner.Store.Tally(ctx)
	if err != nil {
		return v, err
	}
	v.Sessions, v.Workspaces, v.Leased = tally.AllSessions(), tally.Workspaces, tally.Leased
	v.Environments, v.EnvironmentBytes = tally.Environments, tally.EnvironmentBytes
	v.Snapshots, v.SnapshotBytes = tally.Snapshots, tally.SnapshotBytes
	v.SnapshotHits, v.SnapshotMisses, v.SnapshotsRemoved = s.Runner.Snapshots()
	v.Repositories, v.RepositoryBytes = tally.Repositories, tally.RepositoryBytes
	disk, err := disk.SpaceOf(s.Runner.StateDir)
	v.DiskSize, v.DiskFree = int64(disk.Size), int64(disk.Free)
	return v, err
}

func (s *Server) createSession(w http.ResponseWriter, r *http.Request, c caller) error {
	var body wire.NewSession
	if err := decode(w, r, &body); err != nil {
		return err
	}
	ctx, cancel := s.unlessStopping(r)
	defer cancel()
	if body.DryRun {
		plan, err := s.Runner.Plan(ctx, c.Owner, body)
		if err == nil {
			answer(w, http.StatusOK, plan)
		}
		return err
	}
	created, err := s.Runner.Create(ctx, c.Owner, body)
	if err == nil {
		answer(w, http.StatusCreated, created)
	}
	return err
}

// mostListed bounds a page of sessions.
const (
	mostListed    = 1000
	defaultListed = 100
)

// pageOf is the page of sessions that a request asks for.
func pageOf(r *http.Request, c caller) (page store.Page, err error) {
	query := r.URL.Query()
	page = store.Page{
		Viewer: store.Viewer{UID: c.UID}, Limit: defaultListed, Before: query.Get("before"),
		State: wire.SessionState(query.Get("state")),
	}
	all, err := boolean(r, "all")
	if err != nil {
		return page, err
	}
	if page.All = all; all && !c.admin {
		return page, &wire.Error{Code: wire.Forbidden, Message: "only administrators see the sessions of all users",
			Remedy: "leave out all, or have root add your name to admins in runner.toml"}
	}
	switch page.State {
	case "", wire.SessionActive, wire.SessionIdle, wire.SessionClosed:
	default:
		return page, invalid("state", "use active, idle or closed")
	}
	if text := query.Get("limit"); text != "" {
		page.Limit, err = strconv.Atoi(text)
		if err != nil || page.Limit < 1 || page.Limit > mostListed {
			return page, invalid("limit", "use 1 to "+strconv.Itoa(mostListed))
		}
	}
	return page, nil
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request, c caller) error {
	page, err := pageOf(r, c)
	if err != nil {
		return err
	}
	sessions, err := s.Runner.Store.Sessions.List(r.Context(), page)
	if errors.Is(err, store.ErrNotFound) {
		return invalid("before", "use next of the page before")
	}
	if err == nil {
		answer(w, http.StatusOK, sessions)
	}
	return err
}

func (s *Server) prune(w http.ResponseWriter, r *http.Request, c caller) error {
	var body wire.Prune
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if body.OlderThan < 0 {
		return invalid("older_than", "use a time that is not negative")
	}
	if body.All && !c.admin {
		return &wire.Error{Code: wire.Forbidden, Message: "only administrators remove the sessions of all users",
			Remedy: "leave out all"}
	}
	pruned, err := s.Runner.Prune(r.Context(), store.Viewer{UID: c.UID, All: body.All}, body, time.Now())
	if err == nil {
		answer(w, http.StatusOK, pruned)
	}
	return err
}

func invalid(field, remedy string) error {
	return &wire.Error{Code: wire.InvalidRequest, Message: field + " is out of range", Remedy: remedy}
}

// decode reads the body of a request.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	err := wire.Decode(http.MaxBytesReader(w, r.Body, wire.MaxBody), v)
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return &wire.Error{Code: wire.TooLarge, Message: "the body is too long", Remedy: "send at most 8 MiB"}
	}
	if err != nil {
		return &wire.Error{Code: wire.InvalidRequest, Message: "the body is not what this request takes: " +
			err.Error(),
			Remedy: "GET /v1/openapi.yaml has its fields"}
	}
	return nil
}

func boolean(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, invalid(name, "use true or false")
	}
	return v, nil
}
