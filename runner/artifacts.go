package runner

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// keep returns the artifacts of a command. A sandbox wrote their archive.
func (r *Runner) keep(c *run) []artifact.File {
	archive, err := os.Open(r.file(c.Session, c.Number, paths.Artifacts))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var files []artifact.File
	if err == nil {
		defer archive.Close()
		var info fs.FileInfo
		if info, err = archive.Stat(); err == nil {
			files, err = artifact.Read(archive, info.Size(), r.Artifacts)
		}
	}
	if err != nil {
		r.Logger.Warn("not all artifacts of a command were kept", "session", c.Session, "command", c.Number, "error",
			err)
	}
	return files
}

// ArtifactsOf returns the artifacts of a session.
func (r *Runner) ArtifactsOf(ctx context.Context, v store.Viewer, id string) (wire.Artifacts, error) {
	if _, err := r.Store.Session(ctx, v, id); err != nil {
		return wire.Artifacts{}, about(id, err)
	}
	artifacts, err := r.Store.Artifacts(ctx, id)
	return wire.Artifacts{Artifacts: artifacts}, err
}

// Artifact returns an artifact of a session, and its content. The caller closes that.
func (r *Runner) Artifact(ctx context.Context, v store.Viewer, id string,
	number int64) (wire.Artifact, io.ReadCloser, error) {
	if _, err := r.Store.Session(ctx, v, id); err != nil {
		return wire.Artifact{}, nil, about(id, err)
	}
	a, offset, err := r.Store.Artifact(ctx, id, number)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(wire.NotFound, "`codex-runner artifacts "+id+"` lists them", "the session %s has no artifact %d",
			id, number)
	}
	if err != nil {
		return a, nil, err
	}
	archive, err := os.Open(r.file(id, a.Command, paths.Artifacts))
	if err != nil {
		return a, nil, err
	}
	return a, struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(archive, offset, a.Bytes), archive}, nil
}
