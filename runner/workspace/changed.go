package workspace

import (
	"context"
	"path/filepath"
)

// Changed reports whether the work tree of a local repository has changes that HEAD does not have: new files too, unless
// the repository ignores them. A bare repository has none. It runs as the user who may read the repository, and writes
// nothing there.
func Changed(ctx context.Context, dir string) (bool, error) {
	g := git{dir: filepath.Join(dir, ".git"), tree: dir, env: []string{"GIT_OPTIONAL_LOCKS=0"}}
	if _, err := g.run(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD"); err != nil {
		return false, nil //nolint:nilerr // no work tree, or no commit to compare it with
	}
	out, err := g.run(ctx, nil, "status", "--porcelain", "--untracked-files=normal")
	return len(out) > 0, err
}
