package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table is one table of the output: a title, the heads of the columns and rows.
// Numbers are aligned to the right.
type table struct {
	title string
	heads []string
	rows  [][]any
}

func (t *table) add(cells ...any) { t.rows = append(t.rows, cells) }

// render returns the table as text. The first column is aligned to the left,
// every other one to the right.
func (t table) render() string {
	var b strings.Builder
	b.WriteString(t.title + "\n")
	first := len(t.heads[0])
	for _, row := range t.rows {
		first = max(first, len(fmt.Sprint(row[0])))
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	heads := make([]any, len(t.heads))
	for i, head := range t.heads {
		heads[i] = head
	}
	for _, row := range append([][]any{heads}, t.rows...) {
		fmt.Fprintf(w, "  %-*v\t", first, row[0])
		for _, cell := range row[1:] {
			fmt.Fprintf(w, "%v\t", cell)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	return b.String()
}

// percent is part of whole in percent, "-" of nothing.
func percent(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}
