package doctor

import (
	"context"
	"fmt"

	"codex-proxy/workers/codexhome"
)

// eachCodex calls look with the codex of each worker that has one.
func (s *survey) eachCodex(what string, look func(w worker, c Codex) Finding) []Finding {
	var found []Finding
	for _, w := range s.workers {
		found = append(found, s.oneCodex(w, what, look))
	}
	if len(found) == 0 {
		return []Finding{unchecked("", "no worker is known", "config")}
	}
	return found
}

func (s *survey) oneCodex(w worker, what string, look func(w worker, c Codex) Finding) Finding {
	subject := "worker " + w.name
	switch {
	case w.file == nil:
		return unchecked(subject, "its file is bad", "config")
	case w.file.Mode == codexhome.Demo:
		return ok(subject, "the demo needs none")
	case !s.IsRoot:
		return unprivileged(subject, "run codex as "+workerUser)
	}
	account, err := s.Account(workerUser)
	if err != nil {
		return unchecked(subject, "there is no user "+workerUser, "users")
	}
	c, err := s.Codex(w.file, s.units[w.unit()].Environment, account)
	if err != nil && what == "codex" {
		return blame(subject, err, "install codex, `npm install -g @openai/codex`")
	}
	if err != nil {
		return unchecked(subject, "codex is not found", "codex")
	}
	return look(w, c)
}

// checkCodex checks that each worker has a native codex of a supported version, which
// another user than root can run.
func checkCodex(ctx context.Context, s *survey) []Finding {
	return s.eachCodex("codex", func(w worker, c Codex) Finding {
		version, err := c.Version(ctx)
		if err != nil {
			return blame("worker "+w.name, err, "run it by hand: runuser -u codex-worker -- "+c.Path()+" --version")
		}
		return ok("worker "+w.name, fmt.Sprintf("codex %s, native, %s", version, c.Path()))
	})
}
