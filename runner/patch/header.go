package patch

import (
	"fmt"
	"strconv"
	"strings"
)

// plainHeader reads the two lines with which a part of diff(1) begins.
func (p *parser) plainHeader() (*File, error) {
	file := &File{Line: p.at + 1}
	before, after, err := p.names()
	if err != nil {
		return nil, err
	}
	if before != after && before != "" && after != "" {
		return nil, &Error{Reason: Malformed, File: after, Line: file.Line,
			Text: fmt.Sprintf("it has the name %q too",
				before), Remedy: "make the patch with `git diff`, or name both alike"}
	}
	file.Old, file.New = before, after
	return file, nil
}

// names reads --- and +++; the name of /dev/null is empty.
func (p *parser) names() (before, after string, err error) {
	if before, err = p.name("--- "); err == nil {
		after, err = p.name("+++ ")
	}
	if err == nil && before == "" && after == "" {
		err = p.malformed("", "it has no name before the change and none after it")
	}
	return before, after, err
}

// name reads a line with a name behind the prefix, from which diff(1) parts a time with a tab.
func (p *parser) name(prefix string) (string, error) {
	text, ok := strings.CutPrefix(p.line(), prefix)
	if !ok {
		return "", p.malformed("", fmt.Sprintf("a line that begins with %q is missing here", prefix))
	}
	text, _, _ = strings.Cut(text, "\t")
	if text == "/dev/null" {
		p.at++
		return "", nil
	}
	name, err := p.stripped(text)
	p.at++
	return name, err
}

// stripped is a name without its first directory, which is a/ or b/ in patches of git.
func (p *parser) stripped(text string) (string, error) {
	path, err := p.unquoted(text)
	if err != nil {
		return "", err
	}
	_, path, ok := strings.Cut(path, "/")
	if !ok || path == "" {
		return "", &Error{Reason: Malformed, Line: p.at + 1, Text: fmt.Sprintf("the name %q has no a/ or b/ before it",
			text),
			Remedy: "make the patch with `git diff`, without --no-prefix"}
	}
	return path, nil
}

// unquoted is a name that git quotes as C does.
func (p *parser) unquoted(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		return text, nil
	}
	path, err := strconv.Unquote(text)
	if err != nil {
		return "", p.malformed("", fmt.Sprintf("the name %s is not quoted as git does", text))
	}
	return path, nil
}

// gitHeader reads a part up to its hunks: the line diff --git and the lines of git-diff(1) behind it.
// git reads a header without any such line in ways of its own.
func (p *parser) gitHeader() (*File, error) {
	h := header{parser: p, file: &File{Line: p.at + 1}}
	h.both = p.sameName(strings.TrimPrefix(p.line(), "diff --git "))
	p.at++
	for {
		more, err := h.extended()
		if err != nil {
			return nil, err
		}
		if !more && p.at == h.file.Line {
			return nil, p.malformed(h.both, "its header says no change")
		}
		if !more {
			return h.finish()
		}
	}
}

// A header collects the lines of a git header. Names that they repeat have to agree.
type header struct {
	*parser
	file          *File
	both          string // the name on the line diff --git, if both are equal
	before, after string
	created       bool
	removed       bool
	moved         bool // renamed or copied
}

// extended reads a line of the header, and reports whether it was one.
func (h *header) extended() (bool, error) {
	key, value := h.key()
	var err error
	switch key {
	case "old mode ":
		h.file.OldMode, err = h.mode(h.file.OldMode, value)
	case "new mode ":
		h.file.NewMode, err = h.mode(h.file.NewMode, value)
	case "new file mode ":
		h.created = true
		h.file.NewMode, err = h.mode(h.file.NewMode, value)
	case "deleted file mode ":
		h.removed = true
		h.file.OldMode, err = h.mode(h.file.OldMode, value)
	case "index ":
		err = h.index(value)
	case "rename from ", "copy from ":
		h.moved, h.file.Copied = true, key == "copy from "
		h.before, err = h.agree(h.before, value)
	case "rename to ", "copy to ":
		h.moved = true
		h.after, err = h.agree(h.after, value)
	case "similarity index ", "dissimilarity index ":
	case "--- ":
		return false, h.content()
	case "GIT binary patch":
		return false, h.binaryContent()
	case "Binary files ":
		return false, h.binary(h.both)
	default:
		return false, nil
	}
	h.at++
	return true, err
}

var keys = []string{"old mode ", "new mode ", "new file mode ", "deleted file mode ", "index ", "rename from ",
	"rename to ", "copy from ", "copy to ", "similarity index ", "dissimilarity index ", "--- ", "GIT binary patch",
	"Binary files "}

func (h *header) key() (key, value string) {
	for _, key := range keys {
		if value, ok := strings.CutPrefix(h.line(), key); ok {
			return key, value
		}
	}
	return "", ""
}

// mode checks a mode, and that it agrees with the one before, if any.
func (h *header) mode(before, value string) (string, error) {
	switch {
	case value == submoduleMode:
		return "", &Error{Reason: Unsupported, File: h.both, Line: h.at + 1, Text: "it changes a submodule",
			Remedy: "commit the change and run that commit"}
	case value != regularMode && value != executableMode && value != symlinkMode:
		return "", &Error{Reason: Unsupported, File: h.both, Line: h.at + 1,
			Text: fmt.Sprintf("no file of a tree has the mode %.20q", value), Remedy: "use 100644, 100755 or 120000"}
	case before != "" && before != value:
		return "", h.malformed(h.both, "it has two modes: "+before+" and "+value)
	}
	return value, nil
}

// index reads the mode of a file that keeps it, behind the two hashes.
func (h *header) index(value string) error {
	_, mode, ok := strings.Cut(value, " ")
	if !ok {
		return nil
	}
	var err error
	if h.file.OldMode, err = h.mode(h.file.OldMode, mode); err == nil {
		h.file.NewMode, err = h.mode(h.file.NewMode, mode)
	}
	return err
}

// agree unquotes a name without a/ or b/.
func (h *header) agree(before, value string) (string, error) {
	name, err := h.unquoted(value)
	if err == nil && before != "" && before != name {
		err = h.malformed(name, fmt.Sprintf("it has the name %q too", before))
	}
	return name, err
}

// content reads the names before the hunks.
func (h *header) content() error {
	before, after, err := h.names()
	if err != nil {
		return err
	}
	if (before == "") != h.created || (after == "") != h.removed {
		return h.malformed(h.both, "its header has no line for the new or removed file that --- and +++ show")
	}
	for _, name := range []struct {
		known *string
		is    string
	}{{&h.before, before}, {&h.after, after}} {
		if name.is == "" {
			continue
		}
		if *name.known, err = h.same(*name.known, name.is); err != nil {
			return err
		}
	}
	return nil
}

func (h *header) same(known, is string) (string, error) {
	if !h.moved && known == "" {
		known = h.both
	}
	if known != is {
		return "", h.malformed(is, fmt.Sprintf("it has the name %q too", known))
	}
	return is, nil
}

// finish sets the names of the file.
func (h *header) finish() (*File, error) {
	f := h.file
	if !h.moved {
		h.before, h.after = h.both, h.both
	}
	if h.before == "" || h.after == "" || (h.moved && (h.created || h.removed)) || (h.created && h.removed) {
		return nil, &Error{Reason: Malformed, File: h.both, Line: f.Line,
			Text:   "its header does not say which file it changes",
			Remedy: "make the patch with `git diff`"}
	}
	if !h.created {
		f.Old = h.before
	}
	if !h.removed {
		f.New = h.after
	}
	return f, nil
}

// sameName is the name in "a/NAME b/NAME", empty if the two differ.
func (p *parser) sameName(text string) string {
	split := len(text) / 2
	if len(text)%2 == 0 || text[split] != ' ' {
		return ""
	}
	before, err := p.stripped(text[:split])
	after, err2 := p.stripped(text[split+1:])
	if err != nil || err2 != nil || before != after {
		return ""
	}
	return before
}
