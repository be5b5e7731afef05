package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	boldSpan = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	link     = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
)

// marked turns the marks of Markdown within a line into fonts.
func marked(text string) string {
	text = codeSpan.ReplaceAllString(text, strong+"$1"+plain)
	text = boldSpan.ReplaceAllString(text, strong+"$1"+plain)
	return link.ReplaceAllString(text, "$1")
}

// sectionOf writes the section (##) of that title of a Markdown text. If there is
// none it is an error: the document was changed without its page.
func (r *roff) sectionOf(text, title string) error {
	_, rest, ok := strings.Cut(text, "\n## "+title+"\n")
	if !ok {
		return fmt.Errorf("there is no section %q", title)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	r.section(title)
	r.markdown(body)
	return nil
}

func (r *roff) markdown(text string) {
	rows := lines(text)
	for i := 0; i < len(rows); {
		end := i + 1
		switch row := rows[i]; {
		case strings.HasPrefix(row, "```"):
			for end < len(rows) && !strings.HasPrefix(rows[end], "```") {
				end++
			}
			r.literal(rows[i+1 : end])
			end++
		case strings.HasPrefix(row, "### "):
			r.subsection(row[4:])
		case strings.HasPrefix(row, "|"):
			for end < len(rows) && strings.HasPrefix(rows[end], "|") {
				end++
			}
			r.table(rows[i:end])
		case strings.HasPrefix(row, "- "):
			r.bullet(marked(row[2:]))
		case row != "":
			r.paragraph(marked(row))
		}
		i = end
	}
}

// table writes each row as an item: its first cell, then the others, which their
// columns' titles introduce if there are several.
func (r *roff) table(rows []string) {
	titles := cells(rows[0])
	for _, row := range rows[2:] {
		c := cells(row)
		text := c[1]
		for i := 2; i < len(c); i++ {
			if c[i] != "–" {
				text += "; " + titles[i] + ": " + c[i]
			}
		}
		r.item(strings.ReplaceAll(c[0], "`", ""), marked(text)+".")
	}
}

func cells(row string) []string {
	all := strings.Split(strings.Trim(row, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
