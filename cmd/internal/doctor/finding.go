package doctor

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"codex-proxy/cmd/internal/codexhome"
)

// Level is the severity of a finding.
type Level string

// The levels: with a Fail the service, or a part of it, does not work or is unsafe;
// with a Warn it works less well than it could, or a check could not run because of
// a Fail elsewhere.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is the result of one check for one subject.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Subject string `json:"subject,omitempty"` // a unit, a worker, a path; empty: the machine
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy,omitempty"` // empty if and only if Level is OK
}

// Report is all findings, in the order of the checks. Each check has at least one.
type Report struct {
	OK       bool      `json:"ok"` // nothing failed
	Findings []Finding `json:"findings"`
}

func ok(subject, detail string) Finding {
	return Finding{Level: OK, Subject: subject, Detail: detail}
}

func warn(subject, detail, remedy string) Finding {
	return Finding{Level: Warn, Subject: subject, Detail: detail, Remedy: remedy}
}

func fail(subject, detail, remedy string) Finding {
	return Finding{Level: Fail, Subject: subject, Detail: detail, Remedy: remedy}
}

// unchecked is the finding of a check that could not run because of the findings of
// another.
func unchecked(subject, why, other string) Finding {
	return warn(subject, "not checked: "+why, "mend the findings of "+other+" first")
}

// unprivileged is the finding of a check that needs root.
func unprivileged(subject, what string) Finding {
	return fail(subject, "not checked: only root may "+what, "run it as root: sudo codex-proxy doctor")
}

// orOK is the problems, or OK with detail if there is none.
func orOK(problems []Finding, detail string) []Finding {
	if len(problems) > 0 {
		return problems
	}
	return []Finding{ok("", detail)}
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

func (r *Report) add(check string, findings []Finding) {
	r.OK = len(r.Findings) == 0 || r.OK
	for _, f := range findings {
		f.Check = check
		r.OK = r.OK && f.Level != Fail
		r.Findings = append(r.Findings, f)
	}
}

// Write writes the report for people: one line a finding, and its remedy below.
func (r Report) Write(w io.Writer) error {
	count := map[Level]int{}
	var page strings.Builder
	for _, f := range r.Findings {
		count[f.Level]++
		fmt.Fprintf(&page, "%-4s  %-12s  %s\n", f.Level, f.Check, f.sentence())
		if f.Remedy != "" {
			fmt.Fprintf(&page, "%20s-> %s\n", "", oneLine(f.Remedy))
		}
	}
	fmt.Fprintf(&page, "\n%d ok, %d warn, %d fail\n", count[OK], count[Warn], count[Fail])
	_, err := io.WriteString(w, page.String())
	return err
}

func (f Finding) sentence() string {
	if f.Subject == "" {
		return oneLine(f.Detail)
	}
	return f.Subject + ": " + oneLine(f.Detail)
}

// oneLine is text as a terminal may show it: parts of it come from servers that are not trusted.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
