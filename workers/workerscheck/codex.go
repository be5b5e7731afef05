package workerscheck

import (
	"context"
	"strings"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units/survey"
	"codex-proxy/workers/codexhome"
)

// eachCodex calls look with the codex of each worker that has one.
func (r *room) eachCodex(what string, look func(w Worker, c Codex) checkup.Finding) []checkup.Finding {
	var found []checkup.Finding
	for _, w := range r.workers {
		found = append(found, r.oneCodex(w, what, look))
	}
	if len(found) == 0 {
		return checkup.Unchecked("", "no worker is known", "config").Alone()
	}
	return found
}

func (r *room) oneCodex(w Worker, what string, look func(w Worker, c Codex) checkup.Finding) checkup.Finding {
	subject := w.Subject()
	switch {
	case w.file == nil:
		return checkup.Unchecked(subject, "its file is bad", "config")
	case w.file.Mode == codexhome.Demo:
		return checkup.Passed(subject, "the demo needs none")
	case !r.IsRoot:
		return survey.Unprivileged(subject, "run codex as "+paths.WorkerUser)
	}
	account, err := r.Account(paths.WorkerUser)
	if err != nil {
		return checkup.Unchecked(subject, "there is no user "+paths.WorkerUser, "users")
	}
	c, err := r.Codex(w.file, r.Units[w.Unit()].Environment, account)
	if err != nil && what == "codex" {
		return Blame(subject, err, "install codex, `npm install -g @openai/codex`")
	}
	if err != nil {
		return checkup.Unchecked(subject, "codex is not found", "codex")
	}
	return look(w, c)
}

// codex checks that each worker has a native codex of a supported version, which
// another user than root can run.
func (r *room) codex(ctx context.Context) []checkup.Finding {
	return r.eachCodex("codex", func(w Worker, c Codex) checkup.Finding {
		version, err := c.Version(ctx)
		if err != nil {
			return Blame(w.Subject(), err, "run it by hand: runuser -u codex-worker -- "+c.Path()+" --version")
		}
		about := []string{"codex " + version, "native", c.Path()}
		if newer := versions.Standing(version); newer != "" {
			about = append(about, newer)
		}
		return checkup.Passed(w.Subject(), strings.Join(about, ", "))
	})
}
