package codexcli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"codex-proxy/codex/copies"
	"codex-proxy/codex/versions"
)

// write writes the report for people.
func write(w io.Writer, r copies.Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Copies) > 0 {
		fmt.Fprintln(table, "COPY\tSTATE\tTESTED\tTAKEN\tCHOSEN BY")
	}
	for _, c := range r.Copies {
		units := strings.ReplaceAll(strings.Join(r.Units[c.Name], ", "), ".service", "")
		tested := "yes"
		if versions.Standing(c.Version) != "" {
			tested = "newer"
		}
		fmt.Fprintln(table, strings.Join([]string{c.Name, state(c.Name, r.State), tested,
			c.Taken.Local().Format("2006-01-02 15:04"), cmp.Or(units, "-")}, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	lines := Notes(r)
	if text := r.Standing(); text != "" {
		lines = append([]string{text}, lines...)
	}
	if len(r.Copies)+len(lines) == 0 {
		lines = []string{"there is no copy of codex yet: the next start of a worker or remote that needs codex makes one"}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func state(name string, s copies.State) string {
	_, held := s.HeldBack(name)
	switch {
	case name == s.Pinned:
		return "in use, stays"
	case name == s.InUse:
		return "in use"
	case held:
		return "held back"
	case name == s.Before:
		return "before"
	}
	return "-"
}

// Notes are the sentences about all but the codex in use.
func Notes(r copies.Report) (lines []string) {
	add := func(text string) {
		if text != "" {
			lines = append(lines, text)
		}
	}
	if sentence, remedy := r.Waiting(); sentence != "" {
		add(sentence + "; " + remedy)
	}
	if r.State.Pinned != "" {
		add("it stays in use by order of an operator, until `codex-proxy codex follow`")
	}
	if r.Installed != nil && r.InPlace != nil {
		add("the installed codex is not copied: " + r.InPlace.Error())
	}
	if r.Fault != nil {
		add(r.Fault.Error())
	}
	return lines
}
