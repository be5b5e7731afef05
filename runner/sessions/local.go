package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/workspace"
)

// local finds the repository with the top directory top, of which dir is named, and sends its commit.
func (s Source) local(ctx context.Context, top, dir string) (Found, error) {
	found, err := s.commit(ctx, top)
	if err != nil {
		return Found{}, err
	}
	if found.Snapshot != nil {
		defer found.Snapshot.Close()
	}
	if found.Within, err = filepath.Rel(top, dir); err != nil {
		return Found{}, err
	}
	if found.Within == "." {
		found.Within = ""
	}
	path, err := mirrorPath(ctx, top)
	if err != nil {
		return Found{}, err
	}
	repository, err := s.Client.AddRepository(ctx, wire.NewRepository{
		Path: path, URL: workspace.Origin(ctx, gitDir(top)),
	})
	if err != nil {
		return Found{}, err
	}
	found.Repository = repository.Key
	if err := (&sender{s.Client, repository}).send(ctx, found); err != nil {
		return Found{}, fmt.Errorf("cannot send %s %s: %w", s.Name, s.Where, err)
	}
	return found, nil
}

// commit finds the commit to send, and makes it if it has changes that are not committed.
func (s Source) commit(ctx context.Context, top string) (found Found, err error) {
	found.Dir = top
	if found.Snapshot, err = s.snapshot(ctx, top); err != nil {
		return found, err
	}
	if found.Snapshot != nil && found.Snapshot.Commit != "" {
		found.Base, found.Ref = found.Snapshot.Base, found.Snapshot.Commit
		return found, nil
	}
	if found.Ref, err = workspace.Resolve(ctx, gitDir(top), s.Ref); err != nil {
		return found, s.unresolved(err)
	}
	found.Base = found.Ref
	return found, nil
}

// sender sends commits to the mirror of a local repository.
type sender struct {
	client *client.Client
	to     wire.Repository
}

// send sends the commit that was found, unless the mirror has it. One with changes follows its base: the mirror has the
// base then, and the next changes need no more than themselves.
func (s *sender) send(ctx context.Context, found Found) error {
	if found.Ref != found.Base && found.Base != "" && !slices.Contains(s.to.Has, found.Base) {
		if err := s.bundle(ctx, workspace.Local{Dir: found.Dir, Commit: found.Base}); err != nil {
			return err
		}
	}
	from := workspace.Local{Dir: found.Dir, Commit: found.Ref}
	if found.Snapshot != nil {
		from.Objects = found.Snapshot.Objects
	}
	tags, err := workspace.LocalTags(ctx, from)
	if err == nil && (!slices.Contains(s.to.Has, from.Commit) || s.to.Tags() != tags) {
		err = s.bundle(ctx, from)
	}
	return err
}

// bundle sends the history of a commit that the daemon does not have, while git packs it.
func (s *sender) bundle(ctx context.Context, from workspace.Local) error {
	pipe, packed := io.Pipe()
	var all errgroup.Group
	var packing error
	all.Go(func() error {
		packing = workspace.WriteBundle(ctx, from, s.to.Has, s.to.Tags(), packed)
		_ = packed.CloseWithError(packing) // it returns nil always
		return nil
	})
	now, err := s.client.PutBundle(ctx, s.to.Key, pipe)
	_ = pipe.Close() // it always returns nil, too
	_ = all.Wait()
	switch {
	case errors.Is(packing, workspace.ErrNothingNew):
		return nil
	case packing != nil && !errors.Is(packing, io.ErrClosedPipe):
		return packing
	case err == nil:
		s.to = now
	}
	return err
}
