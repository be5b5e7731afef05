package main

import (
	"fmt"
	"regexp"
	"strings"
)

// roff is a page in the language of man(7).
type roff struct {
	strings.Builder
	begun int // length at the last heading: the text after it needs no .PP
}

// newPage begins a page of the package of a program.
func newPage(program, name string, section int, date, summary string) *roff {
	var r roff
	fmt.Fprintf(&r, ".TH %s %d %s %s\n", quote(strings.ToUpper(name)), section, date, program)
	r.section("NAME")
	r.text(name + " - " + summary)
	return &r
}

func (r *roff) section(title string) {
	fmt.Fprintf(r, ".SH %s\n", quote(strings.ToUpper(title)))
	r.begun = r.Len()
}

func (r *roff) subsection(title string) {
	fmt.Fprintf(r, ".SS %s\n", quote(title))
	r.begun = r.Len()
}

func (r *roff) next() {
	if r.Len() > r.begun {
		r.WriteString(".PP\n")
	}
}

func (r *roff) paragraph(text string) {
	r.next()
	r.text(text)
}

// item is a paragraph with a tag before it.
func (r *roff) item(tag, text string) {
	r.WriteString(".TP\n")
	r.bold(tag)
	r.text(text)
}

func (r *roff) bullet(text string) {
	r.WriteString(".IP \\(bu 2\n")
	r.text(text)
}

func (r *roff) bold(text string) { fmt.Fprintf(r, ".B %s\n", quote(text)) }

// literal keeps lines as they are.
func (r *roff) literal(lines []string) {
	r.next()
	r.WriteString(".RS 4\n.nf\n")
	for _, line := range lines {
		r.WriteString(guard(escape(line)) + "\n")
	}
	r.WriteString(".fi\n.RE\n")
}

// nested is literal within an item.
func (r *roff) nested(lines []string) {
	r.WriteString(".RS\n")
	r.begun = r.Len()
	r.literal(lines)
	r.WriteString(".RE\n")
}

const width = 76

var sentenceEnd = regexp.MustCompile(`[.!?][)"']*$`)

// text writes filled text: every sentence on a line of its own (man(7)), and no
// line too long.
func (r *roff) text(text string) {
	var line string
	for _, word := range strings.Fields(escape(text)) {
		if line != "" && len(line)+1+len(word) > width {
			r.WriteString(guard(line) + "\n")
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
		if sentenceEnd.MatchString(word) {
			r.WriteString(guard(line) + "\n")
			line = ""
		}
	}
	if line != "" {
		r.WriteString(guard(line) + "\n")
	}
}

// strong and plain switch fonts within text; escape leaves them alone.
const (
	strong = "\x01"
	plain  = "\x02"
)

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "’", "'", "…", `\[u2026]`, "–", `\(en`, "→", `\(->`,
	"●", `\(bu`, "≥", `\(>=`, "≤", `\(<=`, "×", `\(mu`, strong, `\fB`, plain, `\fR`)

func escape(text string) string { return escapes.Replace(text) }

// guard keeps a text line from being taken for a request.
func guard(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// quote makes one argument of a macro.
func quote(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }
