package runner

import (
	"context"
	"errors"
	"io"
	"os"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// ArtifactsOf returns the artifacts of a session.
func (s *Sessions) ArtifactsOf(ctx context.Context, v store.Viewer, id string) (wire.Artifacts, error) {
	if _, err := s.store.Sessions.Find(ctx, v, id); err != nil {
		return wire.Artifacts{}, about(id, err)
	}
	artifacts, err := s.store.Artifacts.List(ctx, id)
	return wire.Artifacts{Artifacts: artifacts}, err
}

// Artifact returns an artifact of a session, and its content. The caller closes that.
func (s *Sessions) Artifact(ctx context.Context, v store.Viewer, id string,
	number int64) (wire.Artifact, io.ReadCloser, error) {
	if _, err := s.store.Sessions.Find(ctx, v, id); err != nil {
		return wire.Artifact{}, nil, about(id, err)
	}
	a, offset, err := s.store.Artifacts.Find(ctx, id, number)
	if errors.Is(err, store.ErrNotFound) {
		err = wire.Refuse(wire.NotFound, "`codex-runner artifacts "+id+"` lists them",
			"the session %s has no artifact %d",
			id, number)
	}
	if err != nil {
		return a, nil, err
	}
	archive, err := os.Open(s.files.Path(id, a.Command, paths.Artifacts))
	if err != nil {
		return a, nil, err
	}
	return a, struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(archive, offset, a.Bytes), archive}, nil
}
