package main

import "strings"

// help writes the lines of a command's help: paragraphs, options, and what is
// indented as it is.
func (r *roff) help(body []string) {
	for _, block := range blocks(body) {
		switch {
		case strings.HasPrefix(block[0], "  -"):
			r.options(block)
		case strings.HasPrefix(block[0], " "):
			r.literal(unindent(block))
		default:
			r.paragraph(strings.Join(block, " "))
		}
	}
}

// options writes a block of options, each with the lines that go on below it.
func (r *roff) options(block []string) {
	for i := 0; i < len(block); {
		end := i + 1
		for end < len(block) && !strings.HasPrefix(block[end], "  -") {
			end++
		}
		r.option(block[i:end])
		i = end
	}
}

func (r *roff) option(rows []string) {
	tag, text, _ := strings.Cut(strings.TrimSpace(rows[0]), "  ")
	column := strings.Index(rows[0], strings.TrimSpace(text))
	if text == "" && len(rows) > 1 {
		column = indent(rows[1])
	}
	r.item(tag, text)
	for i := 1; i < len(rows); {
		end := i + 1
		deeper := indent(rows[i]) > column
		for end < len(rows) && (indent(rows[end]) > column) == deeper {
			end++
		}
		if deeper {
			r.nested(unindent(rows[i:end]))
		} else {
			r.text(strings.Join(rows[i:end], " "))
		}
		i = end
	}
}

// blocks splits lines at the empty ones, and where indented ones begin.
func blocks(rows []string) [][]string {
	var all [][]string
	var block []string
	for _, row := range append(rows, "") {
		empty := strings.TrimSpace(row) == ""
		begins := block != nil && indent(row) > 0 && indent(block[0]) == 0
		if block != nil && (empty || begins) {
			all, block = append(all, block), nil
		}
		if !empty {
			block = append(block, row)
		}
	}
	return all
}

func indent(row string) int { return len(row) - len(strings.TrimLeft(row, " ")) }

// unindent takes away the indentation that all rows have.
func unindent(rows []string) []string {
	least := indent(rows[0])
	for _, row := range rows {
		if strings.TrimSpace(row) != "" {
			least = min(least, indent(row))
		}
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = row[min(least, len(row)):]
	}
	return out
}
