package holders

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// longest bounds the command line in the text of a Holder, in characters, and longestPath a path.
	longest     = 100
	longestPath = 200
	// named bounds the number of things that the text of a Holder names.
	named = 3
)

// kind sorts the held resources: the lock is the surest sign.
type kind int

const (
	aLock kind = iota
	aPort
	aFile
)

type entry struct {
	what string
	kind kind
}

// Holder is a process that holds a part of a claim.
type Holder struct {
	PID     int    // 0: no visible process
	Command string // its command line, shortened, printable characters only
	Unit    string // its unit; empty: unknown

	held []entry
}

// add adds something once: a process may have a file open several times.
func (h *Holder) add(what string, k kind) {
	e := entry{what, k}
	if !slices.Contains(h.held, e) {
		h.held = append(h.held, e)
	}
}

// String names the held resource and the process: "port 7233 is held by pid 812 (temporal server start-dev), unit
// session-3.scope".
func (h Holder) String() string {
	verb := " is held by "
	if len(h.held) > 1 {
		verb = " are held by "
	}
	return h.things() + verb + h.process()
}

func (h Holder) things() string {
	held := slices.SortedStableFunc(slices.Values(h.held), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.what, b.what))
	})
	var words []string
	for _, e := range held[:min(len(held), named)] {
		words = append(words, printable(e.what, longestPath)) // the server's user names the files of its data
	}
	if more := len(held) - named; more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func (h Holder) process() string {
	switch {
	case h.PID == 0:
		return "a process that cannot be seen from here"
	case h.Unit == "":
		return fmt.Sprintf("pid %d (%s)", h.PID, h.Command)
	default:
		return fmt.Sprintf("pid %d (%s), unit %s", h.PID, h.Command, h.Unit)
	}
}

// describe reads the process's command line and unit. A process may replace its command line (proc_pid_cmdline(5)).
func (h *Holder) describe(proc string) {
	dir := filepath.Join(proc, strconv.Itoa(h.PID))
	command, _ := readStart(filepath.Join(dir, "cmdline"))
	h.Command = printable(strings.TrimRight(strings.ReplaceAll(command, "\x00", " "), " "), longest)
	if h.Command == "" {
		name, _ := readStart(filepath.Join(dir, "comm"))
		h.Command = printable(strings.TrimSpace(name), longest)
	}
	groups, _ := readStart(filepath.Join(dir, "cgroup"))
	h.Unit = printable(unitOf(groups), longest)
}

// readStart returns the first 4096 bytes of a file.
func readStart(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 4096)
	n, err := f.Read(text)
	return string(text[:n]), err
}

// printable replaces all characters but printable ASCII, and shortens text to most characters.
func printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
