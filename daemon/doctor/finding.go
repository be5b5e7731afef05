package doctor

import (
	"errors"

	"codex-proxy/internal/checkup"
	"codex-proxy/workers/codexhome"
)

// Level is checkup.Level.
type Level = checkup.Level

// Finding is checkup.Finding.
type Finding = checkup.Finding

// Report is checkup.Report.
type Report = checkup.Report

// The levels of checkup.Level.
const (
	OK   = checkup.OK
	Warn = checkup.Warn
	Fail = checkup.Fail
)

func ok(subject, detail string) Finding           { return checkup.Passed(subject, detail) }
func warn(subject, detail, remedy string) Finding { return checkup.Warning(subject, detail, remedy) }
func fail(subject, detail, remedy string) Finding { return checkup.Failure(subject, detail, remedy) }

func unchecked(subject, why, other string) Finding { return checkup.Unchecked(subject, why, other) }

func orOK(problems []Finding, detail string) []Finding { return checkup.OrPassed(problems, detail) }

// unprivileged is the finding of a check that needs root.
func unprivileged(subject, what string) Finding {
	return fail(subject, "not checked: only root may "+what, "run it as root: sudo codex-proxy doctor")
}

// blame is fail for an error, with the hint of a Problem as its remedy.
func blame(subject string, err error, otherwise string) Finding {
	var p *codexhome.Problem
	if !errors.As(err, &p) || p.Hint == "" {
		return fail(subject, err.Error(), otherwise)
	}
	bare := *p
	bare.Hint = ""
	return fail(subject, bare.Error(), p.Hint)
}
