package exec

import (
	"context"
	"errors"
	"os"
	"time"

	"codex-proxy/runner/artifact"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
)

// keepBound bounds the time in which artifacts are kept: processes that the command has left run on meanwhile.
const keepBound = 20 * time.Second

// keep writes the artifacts of a command that has ended in any way. Of the result, a failure changes ArtifactsFault
// alone.
func (s *Shim) keep(r *run, result *session.Result) {
	if r.spec.Artifacts == nil {
		return
	}
	s.Notifier.Status("Keeping artifacts")
	if err := s.artifacts(r.spec.Artifacts); err != nil {
		result.ArtifactsFault = err.Error()
	}
}

func (s *Shim) artifacts(want *session.Artifacts) error {
	archive := s.Files[paths.ArtifactsFile]
	if archive == nil {
		return errors.New("session-prepare has passed no file for them")
	}
	var patterns []artifact.Pattern
	for _, text := range want.Patterns {
		pattern, err := artifact.Parse(text)
		if err != nil {
			return err
		}
		patterns = append(patterns, pattern)
	}
	tree, err := os.OpenRoot(s.Workspace)
	if err != nil {
		return err
	}
	defer tree.Close()
	ctx, cancel := context.WithTimeout(context.Background(), keepBound)
	defer cancel()
	return artifact.Collect(ctx, tree, patterns, archive, artifact.Limits{Bytes: want.Bytes, Count: want.Count})
}
