package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	widest = 120 // columns of a line
	tab    = 4   // columns of a tab
)

// columnTable counts the lines of Go files that are wider than 120 columns, with
// 4 columns a tab and one for each other rune.
func columnTable(texts []text) table {
	out := table{
		title: fmt.Sprintf("lines over %d columns", widest),
		heads: []string{"in", "lines", "over", "per 1000"},
	}
	for _, k := range []kind{productGo, testGo} {
		all, over := 0, 0
		for _, t := range texts {
			if t.kind == k {
				all += strings.Count(t.data, "\n")
				over += wide(t.data)
			}
		}
		out.add(k, all, over, fmt.Sprintf("%.1f", 1000*float64(over)/float64(max(all, 1))))
	}
	return out
}

// wide is the number of lines that are too wide.
func wide(data string) int {
	n := 0
	for line := range strings.Lines(data) {
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line)+(tab-1)*strings.Count(line, "\t") > widest {
			n++
		}
	}
	return n
}
