// Package checkup is the frame of a program's doctor: checks of an installation run side by side, each bounded, and
// make one report of findings with their remedies.
package checkup

import (
	"fmt"
	"io"
	"strings"
	"unicode"
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

// Passed is an OK finding.
func Passed(subject, detail string) Finding {
	return Finding{Level: OK, Subject: subject, Detail: detail}
}

// Warning is a Warn finding.
func Warning(subject, detail, remedy string) Finding {
	return Finding{Level: Warn, Subject: subject, Detail: detail, Remedy: remedy}
}

// Failure is a Fail finding.
func Failure(subject, detail, remedy string) Finding {
	return Finding{Level: Fail, Subject: subject, Detail: detail, Remedy: remedy}
}

// Unchecked is the finding of a check that could not run because of the findings of
// another.
func Unchecked(subject, why, other string) Finding {
	return Warning(subject, "not checked: "+why, "mend the findings of "+other+" first")
}

// Alone is the result of a check that has no other finding.
func (f Finding) Alone() []Finding { return []Finding{f} }

// OrPassed is the problems, or OK with detail if there are no problems.
func OrPassed(problems []Finding, detail string) []Finding {
	if len(problems) > 0 {
		return problems
	}
	return []Finding{Passed("", detail)}
}

// Add adds the findings of a check.
func (r *Report) Add(check string, findings []Finding) {
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
		fmt.Fprintf(&page, "%-4s  %-12s  %s\n", f.Level, f.Check, f.Sentence())
		if f.Remedy != "" {
			fmt.Fprintf(&page, "%20s-> %s\n", "", oneLine(f.Remedy))
		}
	}
	fmt.Fprintf(&page, "\n%d ok, %d warn, %d fail\n", count[OK], count[Warn], count[Fail])
	_, err := io.WriteString(w, page.String())
	return err
}

// Sentence is the finding in one line, without its level and its remedy.
func (f Finding) Sentence() string {
	if f.Subject == "" {
		return oneLine(f.Detail)
	}
	return f.Subject + ": " + oneLine(f.Detail)
}

// oneLine is text as a terminal may show it: untrusted servers send parts of it.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
