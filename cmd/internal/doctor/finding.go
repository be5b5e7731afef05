package doctor

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"codex-proxy/cmd/internal/codexhome"
)

// Level is how bad a finding is.
type Level string

// The levels: Fail is what keeps the service, or a part of it, from working or
// from being safe; Warn is what makes it worse than it could be, or what could
// not be looked at because of a Fail elsewhere.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one check says of one subject.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Subject string `json:"subject,omitempty"` // a unit, a worker, a path; empty: the machine
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy,omitempty"` // what to do; never empty unless Level is OK
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

// unchecked is for what cannot be looked at because of what another check says.
func unchecked(subject, why, other string) Finding {
	return warn(subject, "not checked: "+why, "mend what "+other+" says first")
}

// unprivileged is for what only root may look at.
func unprivileged(subject, what string) Finding {
	return fail(subject, "not checked: only root may "+what, "run it as root: sudo codex-proxy doctor")
}

// orOK is the problems, or if there is none a word about what is well.
func orOK(problems []Finding, detail string) []Finding {
	if len(problems) > 0 {
		return problems
	}
	return []Finding{ok("", detail)}
}

// blame is fail for an error that may be a Problem with a hint of its own.
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

// Write shows the report to people: one line a finding, and below what is not
// ok its remedy.
func (r Report) Write(w io.Writer) error {
	count := map[Level]int{}
	var page strings.Builder
	for _, f := range r.Findings {
		count[f.Level]++
		fmt.Fprintf(&page, "%-4s  %-11s  %s\n", f.Level, f.Check, f.sentence())
		if f.Remedy != "" {
			fmt.Fprintf(&page, "%19s-> %s\n", "", oneLine(f.Remedy))
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

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
