package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"codex-proxy/internal/cli"
	"codex-proxy/internal/listing"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// lacking returns the directory from which the caller has made a session, if it lacks the commit of the session, or "".
func lacking(ctx context.Context, s wire.Session) string {
	dir := directoryOf(s)
	// git could run programs of another user's repository.
	if s.Commit == "" || !filepath.IsAbs(dir) || int64(s.Owner.UID) != int64(os.Getuid()) {
		return ""
	}
	_, err := workspace.Resolve(ctx, gitDir(dir), s.Commit)
	if _, unknown := errors.AsType[*workspace.UnknownRefError](err); !unknown {
		return ""
	}
	return dir
}

// directoryOf is the directory from which a session was made, if it was made from one.
func directoryOf(s wire.Session) string {
	dir, _, _ := strings.Cut(s.Repository, shallowMark)
	return dir
}

// writeSession writes a session and its commands, with times in the zone of now. The directory without has a repository
// without the commit of the session, or is "".
func writeSession(w io.Writer, s wire.Session, without string, now time.Time) {
	f := newFields(w)
	f.add("session", "%s, %s, of %s", s.ID, s.State, user(s.Owner))
	f.add("created", "%s (%s ago)", listing.Clock(s.Created, now), listing.Age(s.Created, now))
	if !s.Closed.IsZero() {
		f.add("closed", "%s (%s ago)", listing.Clock(s.Closed, now), listing.Age(s.Closed, now))
	}
	f.text("repository", listing.Printable(s.Repository))
	if s.Ref != s.Commit {
		f.text("ref", listing.Printable(s.Ref))
	}
	f.text("commit", s.Commit)
	if without != "" {
		f.text("", "which "+listing.Printable(without)+" lacks: the session has made it of changes that are not committed")
	}
	f.text("patch", s.Patch)
	f.text("environment", s.Environment)
	if s.Network {
		f.text("network", "open")
	}
	f.text("secrets", strings.Join(s.Secrets, " "))
	f.flush()
	for _, c := range s.Commands {
		fmt.Fprintf(w, "\n%d. %s\n", c.Number, commandLine(c.Args))
		writeCommand(w, c, now)
	}
}

func writeCommand(w io.Writer, c wire.Command, now time.Time) {
	f := newFields(w)
	f.text("  state", state(c))
	if c.Position > 0 {
		f.add("  queue", "place %d", c.Position)
	}
	if c.Outcome != nil {
		f.text("  end", listing.Printable(c.Outcome.Text))
	}
	f.text("  artifacts", listing.Printable(c.ArtifactsFault))
	f.text("  directory", listing.Printable(c.Directory))
	if !c.Started.IsZero() {
		f.add("  time", "%s, from %s", took(c, now), listing.Clock(c.Started, now))
	}
	if u := c.Usage; u != nil {
		used := fmt.Sprintf("%s of output, %v of CPU", size(u.Output),
			time.Duration(u.User+u.System).Round(time.Millisecond))
		if u.MemoryPeak > 0 {
			used += ", at most " + size(u.MemoryPeak) + " of memory"
		}
		f.text("  used", used)
	}
	f.text("  limits", limits(c.Limits))
	if c.Invocation != "" {
		f.text("  journal", "journalctl _SYSTEMD_INVOCATION_ID="+c.Invocation)
	}
	f.flush()
}

// fields are lines of a name and a text, the texts below each other, in a buffer.
type fields struct{ *tabwriter.Writer }

func newFields(w io.Writer) fields { return fields{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (f fields) add(name, format string, args ...any) {
	if name != "" {
		name += ":"
	}
	fmt.Fprintf(f, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

// text adds a line unless the text is empty.
func (f fields) text(name, text string) {
	if text != "" {
		f.add(name, "%s", text)
	}
}

func (f fields) flush() { _ = f.Flush() } // into memory

// limits are the ones that are set, as the options of run.
func limits(l wire.Limits) string {
	var all []string
	add := func(name string, set bool, text string) {
		if set {
			all = append(all, "--"+name+" "+text)
		}
	}
	add("timeout", l.Timeout != 0, time.Duration(l.Timeout).String())
	add("grace", l.Grace != 0, time.Duration(l.Grace).String())
	add("cpus", l.CPUs != 0, strconv.FormatFloat(l.CPUs, 'f', -1, 64))
	add("memory", l.Memory != 0, cli.FormatBytes(l.Memory))
	add("tasks", l.Tasks != 0, strconv.FormatInt(l.Tasks, 10))
	add("output-limit", l.Output != 0, cli.FormatBytes(l.Output))
	add("file-size", l.FileSize != 0, cli.FormatBytes(l.FileSize))
	add("disk", l.Disk != 0, cli.FormatBytes(l.Disk))
	return strings.Join(all, " ")
}

// state is the state of a command, or its outcome.
func state(c wire.Command) string {
	if c.Outcome == nil {
		return strings.ReplaceAll(string(c.State), "_", " ")
	}
	word := strings.ReplaceAll(string(c.Outcome.Word), "_", " ")
	if c.Outcome.Status != 0 {
		word += " (" + strconv.Itoa(c.Outcome.Status) + ")"
	}
	return word
}

// took is how long a command has run.
func took(c wire.Command, now time.Time) string {
	switch {
	case c.Started.IsZero():
		return "-"
	case !c.Ended.IsZero():
		now = c.Ended
	}
	d := max(0, now.Sub(c.Started))
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// plain matches words that a shell takes as they are.
func plain(word string) bool {
	return word != "" && !slices.ContainsFunc([]rune(word), func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-", r)
	})
}

// commandLine is a command in the syntax of a shell, in one line, without control characters (for terminals).
func commandLine(args []string) string {
	if session.IsDiff(args) {
		return "codex-runner diff"
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if !plain(arg) {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return listing.Printable(strings.Join(words, " "))
}

func user(o wire.Owner) string {
	if o.Name == "" {
		return strconv.FormatUint(uint64(o.UID), 10)
	}
	return o.Name
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// size is a number of bytes, rounded.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, units := float64(n)/unit, "KMGTPE"
	for value >= unit {
		value, units = value/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", value, units[0])
}
