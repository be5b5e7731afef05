package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // in place of Package, of a build
	Test       string
	Elapsed    float64
	Output     string
}

// name is the name of a test, or of a package.
type name struct{ pkg, test string }

// report has the results of the packages so far.
type report struct {
	out            io.Writer
	output         map[name][]string // of what has not passed
	passed, failed int               // tests
	packages, bad  int
	left           leftOut
	slowest        []timed
}

type timed struct {
	name
	seconds float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[name][]string{}, left: leftOut{}}
}

// read reads the events of all packages. A line that is no event is printed as it is.
func (r *report) read(events io.Reader) {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.take(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(r.out, "the output of go test does not parse:", err)
	}
}

func (r *report) take(e event) {
	n := name{module(e.Package), e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.output[n] = append(r.output[n], e.Output)
	case "pass", "fail", "skip":
		r.ended(n, e)
	}
}

func (r *report) ended(n name, e event) {
	defer delete(r.output, n)
	switch {
	case e.Action == "skip" && n.test != "":
		r.left.add(n.pkg, reason(r.output[n]))
		return
	case n.test == "":
		r.packages++
	case e.Action == "pass":
		r.passed++
	}
	if e.Action == "fail" {
		r.show(n)
	}
	if n.test != "" && !strings.Contains(n.test, "/") {
		r.slow(timed{n, e.Elapsed})
	}
}

// show prints what a test or a package has printed, if that says more than its end.
func (r *report) show(n name) {
	if n.test != "" {
		r.failed++
		fmt.Fprintf(r.out, "FAIL %s %s\n", n.pkg, n.test)
	} else {
		r.bad++
		fmt.Fprintln(r.out, "FAIL", n.pkg)
	}
	for _, line := range r.output[n] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(r.out, "  ", line)
		}
	}
}

// slowTests is how many of the slowest tests the summary names.
const slowTests = 5

func (r *report) slow(t timed) {
	r.slowest = append(r.slowest, t)
	slices.SortFunc(r.slowest, func(a, b timed) int { return int(1000 * (b.seconds - a.seconds)) })
	r.slowest = r.slowest[:min(len(r.slowest), slowTests)]
}

func (r *report) summary(took time.Duration) {
	verdict := "ok"
	if r.failed > 0 || r.bad > 0 {
		verdict = fmt.Sprintf("%d tests in %d packages failed", r.failed, r.bad)
	}
	fmt.Fprintf(r.out, "tests: %d passed, of %d packages, in %s: %s\n", r.passed, r.packages, took.Round(time.Second), verdict)
	fmt.Fprint(r.out, "the slowest:")
	for _, t := range r.slowest {
		fmt.Fprintf(r.out, " %s %s %.1fs;", t.pkg, t.test, t.seconds)
	}
	fmt.Fprintln(r.out)
	r.left.print(r.out)
}

// module is a package's path below the module.
func module(pkg string) string {
	_, path, _ := strings.Cut(pkg, "/")
	return path
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
