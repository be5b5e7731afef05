// Failures prints why tests failed, for the end of a long log: of the leaves of each package's tree of tests, the lines
// that say what was wrong. Its arguments are files of `go test -json`.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// longest bounds the lines of one test.
const longest = 40

// reason begins what an assertion, a panic, the race detector or a test of ours says, and not what it logs.
var reason = regexp.MustCompile(`^\s*(Error Trace:|Error:|Messages:|panic:|fatal error:|WARNING: DATA RACE|\S+_test\.go:\d+: )`)

func main() {
	for _, name := range os.Args[1:] {
		f, err := os.Open(name)
		if err != nil {
			continue // the run ended before it
		}
		summarize(os.Stdout, f)
		_ = f.Close()
	}
}

type test struct{ Package, Test string }

// summarize writes the failures of one run.
func summarize(out io.Writer, events io.Reader) {
	failed, said := read(events)
	for _, t := range failed {
		below := func(o test) bool {
			return o.Package == t.Package && o.Test != t.Test && (t.Test == "" || strings.HasPrefix(o.Test, t.Test+"/"))
		}
		if why := reasons(said[t]); len(why) > 0 || !slices.ContainsFunc(failed, below) {
			fmt.Fprintf(out, "%s %s\n%s", t.Package, t.Test, strings.Join(why, ""))
		}
	}
}

// read returns the tests that failed, and what they wrote. Lines that are no events are left out.
func read(events io.Reader) (failed []test, said map[test][]string) {
	said = map[test][]string{}
	lines := bufio.NewReader(events)
	for err := error(nil); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		var e struct {
			test
			Action, Output string
		}
		switch _ = json.Unmarshal(bytes.TrimSpace(line), &e); e.Action {
		case "output":
			said[e.test] = append(said[e.test], e.Output)
		case "pass", "skip":
			delete(said, e.test)
		case "fail":
			failed = append(failed, e.test)
		}
	}
	return failed, said
}

// reasons returns the lines from each reason to the next line that is none and stands no deeper.
func reasons(lines []string) (why []string) {
	depth := -1
	for _, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		switch {
		case reason.MatchString(line):
			depth = indent
		case depth < 0, indent <= depth, strings.HasPrefix(strings.TrimSpace(line), "Test:"):
			depth = -1
			continue
		}
		if why = append(why, line); len(why) == longest {
			return append(why, "    …\n")
		}
	}
	return why
}
