package repositories

import (
	"context"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/store"
)

// Source is the origin of the workspace of a session. The zero Source is an empty workspace.
type Source struct {
	Repository store.Repository
	Ref        string
	Commit     string // of the ref at this time
}

// fullCommit matches the whole name of a commit, which never changes its meaning.
var fullCommit = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Resolve finds the commit of a request. A commit that the mirror is known to have needs no fetch, and everything else
// does, as the origin may have changed. The mirror stays until the caller calls release, or has a session that uses it.
func (r *Repositories) Resolve(ctx context.Context, owner wire.Owner,
	n wire.NewSession) (s Source, release func(), err error) {
	release = func() {}
	if n.Repository == "" {
		return s, release, nil
	}
	s.Ref = n.Ref
	if s.Repository, err = r.named(ctx, owner, n.Repository); err != nil {
		return s, release, err
	}
	going, release := r.mirrors.use(s.Repository.Key)
	if !going && fullCommit.MatchString(n.Ref) {
		if known, err := r.Store.Knows(ctx, s.Repository.Key, n.Ref); err == nil && known {
			s.Commit = n.Ref
			return s, release, nil
		}
	}
	s.Commit, err = r.fetch(ctx, &fetch{repository: s.Repository, owner: owner, ref: n.Ref})
	if err != nil {
		release()
	}
	return s, release, err
}

// Text is the source for people.
func (s Source) Text(patch string) string {
	if s.Commit == "" {
		return "empty"
	}
	text := s.Repository.Name()
	if s.Ref != "" && s.Ref != s.Commit {
		text += " at " + s.Ref
	}
	if patch != "" {
		text += " with the patch " + patch
	}
	return text
}
