package main

import (
	"regexp"
	"strings"
)

// within indents the content of an item.
const within = "    "

var (
	special = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `<`, `\<`, `>`, `\>`,
		`[`, `\[`, `]`, `\]`)
	link       = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
	outOfCode  = regexp.MustCompile("[^`]+|`[^`]*`")
	bareStar   = regexp.MustCompile(`\*+`)
	angled     = strings.NewReplacer(`<`, `\<`, `>`, `\>`, `_`, `\_`)
	heading    = regexp.MustCompile("(?m)^### `.*`$")
	listMarker = regexp.MustCompile(`^(?:[-+*#:]|\d+\.) `)
)

// plain is a text that Markdown shows as it is.
func plain(text string) string { return special.Replace(text) }

// marked is a comment, which has Markdown's marks of code, of bold text and of links and no others.
func marked(text string) string {
	return outOfCode.ReplaceAllStringFunc(unlinked(text), func(part string) string {
		if strings.HasPrefix(part, "`") {
			return part
		}
		return bareStar.ReplaceAllStringFunc(angled.Replace(part), func(stars string) string {
			if stars == "*" {
				return `\*`
			}
			return stars
		})
	})
}

// unlinked shows the text of links alone: their targets are no pages.
func unlinked(text string) string { return link.ReplaceAllString(text, "$1") }

func bold(text string) string { return "**" + text + "**" }

// item is a text with a tag before it. The text has the indentation within.
func item(tag, text string) string { return bold(tag) + "\n:   " + strings.TrimPrefix(text, within) }

// blocks makes paragraphs of rows, and keeps indented ones as they are.
func blocks(rows []string, indentation string) string {
	var all, block []string
	for i, row := range append(rows, "") {
		empty := strings.TrimSpace(row) == ""
		if block != nil && (empty || isCode(row) != isCode(block[0])) {
			all, block = append(all, formatted(block, indentation)), nil
		}
		if !empty && i < len(rows) {
			block = append(block, row)
		}
	}
	return strings.Join(all, "\n\n")
}

// isCode reports whether a row stays as it is.
func isCode(row string) bool { return strings.HasPrefix(row, " ") }

// formatted is one paragraph, or rows that stay as they are.
func formatted(rows []string, indentation string) string {
	if !isCode(rows[0]) {
		text := plain(strings.Join(rows, " "))
		if listMarker.MatchString(text) {
			text = `\` + text
		}
		return indentation + text
	}
	return literal(rows, indentation)
}

// literal keeps rows as they are, without the indentation that all of them have.
func literal(rows []string, indentation string) string {
	least := len(rows[0])
	for _, row := range rows {
		if strings.TrimSpace(row) != "" {
			least = min(least, len(row)-len(strings.TrimLeft(row, " ")))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(indentation + within + row[min(least, len(row)):] + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// itemised makes an item of each row of a table: its first cell, then the others, which their columns' titles introduce
// if there are several. The tables are too wide for a terminal.
func itemised(text string) string {
	var out, titles []string
	for _, row := range lines(text) {
		switch {
		case !strings.HasPrefix(row, "|"):
			out, titles = append(out, row), nil
		case titles == nil:
			titles = cells(row)
		case !strings.HasPrefix(row, "|--"):
			out = append(out, rowItem(titles, cells(row)), "")
		}
	}
	return strings.Join(out, "\n")
}

func rowItem(titles, row []string) string {
	text := row[1]
	for i := 2; i < len(row); i++ {
		if row[i] != "–" {
			text += "; " + titles[i] + ": " + row[i]
		}
	}
	return item(plain(strings.ReplaceAll(row[0], "`", "")), within+text+".")
}

func cells(row string) []string {
	all := strings.Split(strings.Trim(row, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
