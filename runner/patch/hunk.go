package patch

import (
	"fmt"
	"strconv"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

var hunkHeader = lazyregexp.New(`^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@`)

// hunk reads a hunk of the file. Its header has the number of its lines, so text of the file is never taken for a
// header.
func (p *parser) hunk(file *File) (Hunk, error) {
	h := Hunk{Line: p.at + 1, Header: p.line()}
	parts := hunkHeader.FindStringSubmatch(h.Header)
	if parts == nil {
		return Hunk{}, p.malformed(file.Path(), "the hunk's first line is not of the form @@ -1,3 +1,4 @@")
	}
	h.OldStart, h.OldLines = number(parts[1]), number(parts[2])
	h.NewStart, h.NewLines = number(parts[3]), number(parts[4])
	p.at++
	for before, after := h.OldLines, h.NewLines; before > 0 || after > 0; p.at++ {
		if p.over() {
			return Hunk{}, p.short(file, h, before, after)
		}
		switch line := p.lines[p.at]; line[0] {
		case ' ', '\n': // mail programs cut the space of an empty line off
			before, after = before-1, after-1
		case '-':
			before--
		case '+':
			after--
			h.added = append(h.added, p.line()[1:])
		case '\\': // the line before has no newline
		default:
			return Hunk{}, p.short(file, h, before, after)
		}
		if !strings.HasSuffix(p.lines[p.at], "\n") {
			return Hunk{}, p.malformed(file.Path(), "the hunk's last line has no newline, so it may be cut off")
		}
		if before < 0 || after < 0 {
			return Hunk{}, p.malformed(file.Path(), "the hunk has other lines than its first line counts")
		}
	}
	if p.line() != "" && p.line()[0] == '\\' {
		p.at++
	}
	return h, nil
}

func (p *parser) short(file *File, h Hunk, before, after int) *Error {
	err := p.malformed(file.Path(), fmt.Sprintf("the hunk ends %d lines early", max(before, after)))
	err.Hunk = h.Header
	err.Remedy = "send the whole patch, as `git diff` writes it"
	return err
}

// number is a count of a header, which is 1 if it is left out.
func number(digits string) int {
	if digits == "" {
		return 1
	}
	n, _ := strconv.Atoi(digits) // digits alone
	return n
}
