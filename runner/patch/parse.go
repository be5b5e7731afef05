package patch

import "strings"

// A parser goes through the lines of a patch once. Each line has its newline, but the last, which may lack it.
type parser struct {
	lines []string
	at    int // the index of the current line; its number is one more
}

// line is the current line without its newline, empty behind the last.
func (p *parser) line() string { return p.ahead(0) }

func (p *parser) ahead(n int) string {
	if p.at+n >= len(p.lines) {
		return ""
	}
	return strings.TrimSuffix(p.lines[p.at+n], "\n")
}

func (p *parser) over() bool {
	return p.at >= len(p.lines) || (p.at == len(p.lines)-1 && p.lines[p.at] == "")
}

func (p *parser) malformed(file, text string) *Error {
	return &Error{Reason: Malformed, File: file, Line: p.at + 1, Text: text, Remedy: "make the patch with `git diff`"}
}

// files reads all parts, and skips the text between them.
func (p *parser) files() ([]File, error) {
	var files []File
	for !p.over() {
		file, err := p.file()
		if err != nil {
			return nil, err
		}
		if file == nil {
			p.at++
			continue
		}
		if err := check(file); err != nil {
			return nil, err
		}
		if files = append(files, *file); len(files) > MaxFiles {
			return nil, &Error{Reason: TooLarge, Line: file.Line, Text: sizes("files", len(files), MaxFiles),
				Remedy: "split the patch, or commit the change and run that commit"}
		}
	}
	return files, nil
}

// file reads the part that begins at the current line; nil if none does.
func (p *parser) file() (file *File, err error) {
	switch line := p.line(); {
	case strings.HasPrefix(line, "diff --git "):
		file, err = p.gitHeader()
	case strings.HasPrefix(line, "--- ") && strings.HasPrefix(p.ahead(1), "+++ ") &&
		strings.HasPrefix(p.ahead(2), "@@ -"):
		file, err = p.plainHeader()
	case strings.HasPrefix(line, "@@ -"):
		return nil, p.malformed("", "a hunk has no file before it")
	case strings.HasPrefix(line, "Binary files ") && strings.HasSuffix(line, " differ"):
		return nil, p.binary("")
	default:
		return nil, nil
	}
	for err == nil && !file.Binary && strings.HasPrefix(p.line(), "@@ -") {
		var h Hunk
		if h, err = p.hunk(file); err == nil {
			file.Hunks = append(file.Hunks, h)
		}
	}
	return file, err
}

func (p *parser) binary(file string) *Error {
	return &Error{Reason: Binary, File: file, Line: p.at + 1, Text: "it changes a binary file, without its content",
		Remedy: "make the patch with `git diff --binary`"}
}
