package main

import (
	"cmp"
	"go/ast"
	"slices"
)

// packageTable lists the largest packages with their files, lines and arrows.
//
// An arrow leads from a file to another file of its package if the former uses a
// definition of the latter: a function, method, type, field, constant or
// variable. Arrows in cycles are arrows between files that reach each other.
// Back arrows are the least number of arrows (as order finds it: an upper bound)
// without which the files can be laid in layers, each using files of deeper
// layers alone.
func (t *tree) packageTable(n int) table {
	out := table{
		title: "packages, without tests",
		heads: []string{"package", "files", "lines", "arrows", "in cycles", "share", "back", "share"},
	}
	sorted := slices.SortedFunc(slices.Values(t.packages), func(a, b *pkg) int {
		return cmp.Or(cmp.Compare(t.lines(b), t.lines(a)), cmp.Compare(a.path, b.path))
	})
	for _, p := range sorted[:min(n, len(sorted))] {
		g := t.arrows(p)
		all, cycles, back := g.size(), g.inCycles(), g.back()
		out.add(p.path, len(p.files), t.lines(p), all, cycles, percent(cycles, all), back, percent(back, all))
	}
	return out
}

// lines is the number of lines of all files of p.
func (t *tree) lines(p *pkg) int {
	sum := 0
	for _, file := range p.files {
		sum += t.fset.File(file.FileStart).LineCount()
	}
	return sum
}

// arrows returns the graph of p's files.
func (t *tree) arrows(p *pkg) graph {
	g := graph{}
	for _, file := range p.files {
		from := t.file(file.FileStart)
		g[from] = map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if used := p.info.Uses[id]; used != nil && used.Pkg() == p.types && used.Pos().IsValid() {
				if to := t.file(used.Pos()); to != from {
					g[from][to] = true
				}
			}
			return true
		})
	}
	return g
}
