package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// leftOut counts the skipped tests, by what they lack and by package.
type leftOut map[string]map[string]int

func (l leftOut) add(pkg, reason string) {
	lack := lack(reason)
	if l[lack] == nil {
		l[lack] = map[string]int{}
	}
	l[lack][pkg]++
}

// reason is what a test says when it skips itself: the last message before its end.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if strings.Contains(line, "--- SKIP") || strings.HasPrefix(line, "=== ") {
			continue
		}
		if _, message, ok := strings.Cut(line, ".go:"); ok {
			_, message, _ = strings.Cut(message, ": ")
			return strings.TrimSpace(message)
		}
	}
	return "no reason is given"
}

var (
	variable = regexp.MustCompile(variables + `[A-Z_]+`)
	root     = regexp.MustCompile(`\broot\b`)
)

// lack is what a test lacks, by its reason: the program of a variable, root, or what it says until a colon.
func lack(reason string) string {
	if v := variable.FindString(reason); v != "" {
		return v
	}
	if root.MatchString(reason) {
		return "root"
	}
	text, _, _ := strings.Cut(reason, ":")
	return text
}

// named is how many packages of a group a line names.
const named = 4

func (l leftOut) print(out io.Writer) {
	fmt.Fprintln(out, "left out: the packages in test/integration, which boot machines (make integration RUN='^TestDrainCommands$/trixie')")
	for _, lack := range sorted(l) {
		packages, tests := sorted(l[lack]), 0
		for _, n := range l[lack] {
			tests += n
		}
		more := ""
		if len(packages) > named {
			more = fmt.Sprintf(" and %d more", len(packages)-named)
		}
		fmt.Fprintf(out, "%5d without %s: %s%s\n", tests, lack, strings.Join(packages[:min(len(packages), named)], " "), more)
	}
	fmt.Fprintln(out, "make check REAL=1 installs the programs that the variables name; as root, it runs the tests that need root; "+
		"make test runs everything")
}
