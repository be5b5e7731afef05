package main

import "strings"

// help writes the text of a command: paragraphs, and indented lines as they are.
func (r *roff) help(text string) {
	for _, block := range blocks(lines(text)) {
		if strings.HasPrefix(block[0], " ") {
			r.literal(unindent(block))
		} else {
			r.paragraph(strings.Join(block, " "))
		}
	}
}

// option writes an option, and indented lines of its text as they are.
func (r *roff) option(o option) {
	r.WriteString(".TP\n")
	r.bold(o.Tag)
	rows := lines(o.Text)
	for i := 0; i < len(rows); {
		end, deeper := i+1, indent(rows[i]) > 0
		for end < len(rows) && (indent(rows[end]) > 0) == deeper {
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
