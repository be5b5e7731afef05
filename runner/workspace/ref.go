package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/internal/nearest"
)

// UnknownRefError is a ref that a repository does not have.
type UnknownRefError struct {
	Ref    string
	Likely []string // branches and tags with like names, the likeliest first
}

func (e *UnknownRefError) Error() string {
	if len(e.Likely) == 0 {
		return fmt.Sprintf("the repository has no branch, tag or commit %q: name one that it has", e.Ref)
	}
	return fmt.Sprintf("the repository has no branch, tag or commit %q: do you mean %s?", e.Ref,
		strings.Join(e.Likely, " or "))
}

// Resolve returns the commit that ref means in a mirror: a branch before a tag before any other ref or commit, as in
// gitrevisions(7). An empty ref is the default branch. The error is an *UnknownRefError if the mirror has none.
func Resolve(ctx context.Context, mirror, ref string) (string, error) {
	g := git{dir: mirror}
	candidates := []string{"refs/heads/" + ref, "refs/tags/" + ref, ref}
	if ref == "" {
		candidates = []string{"HEAD"}
	}
	for _, name := range candidates {
		out, err := g.run(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if err == nil {
			return strings.TrimSpace(string(out)), nil
		}
		var failed *GitError
		if !errors.As(err, &failed) || failed.Status() < 0 {
			return "", err
		}
	}
	names, err := g.run(ctx, nil, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads", "refs/tags")
	if err != nil {
		return "", err
	}
	return "", &UnknownRefError{Ref: ref, Likely: slices.Compact(nearest.To(ref, strings.Fields(string(names)), 3))}
}
