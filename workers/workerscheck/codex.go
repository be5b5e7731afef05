package workerscheck

import (
	"context"
	"errors"
	"strings"

	"codex-proxy/codex/copies"
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
	c, err := r.Codex(w.Unit(), w.file, r.Units[w.Unit()].Environment, account)
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
	found := r.eachCodex("codex", func(w Worker, c Codex) checkup.Finding {
		version, err := c.Version(ctx)
		if err != nil {
			return Blame(w.Subject(), err, "run it by hand: runuser -u codex-worker -- "+c.Path()+" --version")
		}
		about := []string{"codex " + version, "native", c.Path(), versions.Place(version)}
		return checkup.Passed(w.Subject(), strings.Join(about, ", "))
	})
	return append(found, judgeCopies(r.Copies())...)
}

// judgeCopies checks the copy of codex that starts take, and reports an installed codex that waits.
func judgeCopies(report copies.Report) (found []checkup.Finding) {
	const subject = "copies"
	if report.Fault != nil {
		found = append(found, checkup.Failure(subject, report.Fault.Error(),
			"the next start makes the copy anew: systemctl restart 'codex-worker@*.service'"))
	}
	var place *copies.InPlaceError
	if errors.As(report.InPlace, &place) && !place.Steady {
		found = append(found, checkup.Warning(subject, "the installed codex is not copied, so that an installation changes "+
			"it while it runs", place.Reason))
	}
	if sentence, remedy := report.Waiting(); sentence != "" {
		found = append(found, checkup.Warning(subject, sentence, remedy))
	}
	if text := report.Standing(); text != "" && len(found) == 0 {
		found = checkup.Passed(subject, text).Alone()
	}
	return found
}
