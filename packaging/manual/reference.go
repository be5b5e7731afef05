package main

import (
	"regexp"
	"strings"
)

var (
	setting   = regexp.MustCompile(`^(?:# ?)?("[^"]+"|[A-Za-z_][A-Za-z0-9_.-]*) = \S`)
	tableHead = regexp.MustCompile(`^(?:# ?)?\[{1,2}[A-Za-z0-9_."-]+\]{1,2}$`)
	directive = regexp.MustCompile(`^[A-Z][A-Za-z]+=`)
)

// reference writes a reference file of settings: its comments, and each setting with
// the comment above it.
func (r *roff) reference(text string) {
	for _, block := range blocks(lines(text)) {
		last := block[len(block)-1]
		above := block[:len(block)-1]
		switch {
		case strings.HasPrefix(last, "# ") || anySetting(above):
			r.comment(block, false)
		case setting.MatchString(last):
			r.WriteString(".TP\n")
			r.bold(strings.TrimPrefix(last, "#"))
			r.comment(above, true)
		case tableHead.MatchString(last):
			r.subsection(strings.TrimPrefix(last, "#"))
			r.comment(above, false)
		default:
			r.comment(block, false)
		}
	}
}

func anySetting(rows []string) bool {
	for _, row := range rows {
		if setting.MatchString(row) || tableHead.MatchString(row) {
			return true
		}
	}
	return false
}

// comment writes the rows of a block in their order: text, settings, and indented rows.
func (r *roff) comment(rows []string, within bool) {
	for i := 0; i < len(rows); {
		kind, end := kindOf(rows[i]), i+1
		for end < len(rows) && kindOf(rows[end]) == kind {
			end++
		}
		r.rows(kind, rows[i:end], within)
		within = within && kind != kindText
		i = end
	}
}

type kind int

const (
	kindText kind = iota
	kindCode
	kindBreak
)

func kindOf(row string) kind {
	content := strings.TrimPrefix(row, "#")
	switch {
	case strings.TrimSpace(content) == "":
		return kindBreak
	case setting.MatchString(row), tableHead.MatchString(row), strings.HasPrefix(content, "  "),
		!strings.HasPrefix(row, "#"):
		return kindCode
	}
	return kindText
}

func (r *roff) rows(k kind, rows []string, within bool) {
	for i := range rows {
		rows[i] = strings.TrimPrefix(rows[i], "#")
	}
	switch {
	case k == kindCode:
		r.literal(unindent(rows))
	case k == kindText && within:
		r.text(marked(strings.Join(rows, " ")))
	case k == kindText:
		r.paragraph(marked(strings.Join(rows, " ")))
	}
}

// unit writes the directives of a unit file that have a comment, with it.
func (r *roff) unit(text string) {
	r.section("Directives")
	var comment, directives []string
	flush := func() {
		if comment != nil && directives != nil {
			r.item(strings.Join(directives, " "), marked(strings.Join(comment, " ")))
		}
		comment, directives = nil, nil
	}
	for _, row := range append(lines(text), "") {
		switch {
		case strings.HasPrefix(row, "#"):
			if directives != nil {
				flush()
			}
			comment = append(comment, strings.TrimPrefix(row, "#"))
		case directive.MatchString(row) && comment != nil && directives == nil:
			name, _, _ := strings.Cut(row, "=")
			directives = append(directives, name+"=")
		case !directive.MatchString(row):
			flush()
		}
	}
}
