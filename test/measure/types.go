package main

import (
	"cmp"
	"go/types"
	"slices"
)

// methods are the methods of one type, and the files that hold them.
type methods struct {
	name         string
	number, file int
}

// mostTypes is how many types the table of types has.
const mostTypes = 8

// typeTable lists the types with the most methods, and in how many files these are.
func (t *tree) typeTable() table {
	var all []methods
	for _, p := range t.packages {
		for _, named := range p.named() {
			files := map[string]bool{}
			for m := range named.Methods() {
				files[t.file(m.Pos())] = true
			}
			all = append(all, methods{p.path + "." + named.Obj().Name(), named.NumMethods(), len(files)})
		}
	}
	slices.SortFunc(all, func(a, b methods) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(a.name, b.name))
	})
	out := table{title: "types with the most methods", heads: []string{"type", "methods", "in files"}}
	for _, m := range all[:min(mostTypes, len(all))] {
		out.add(m.name, m.number, m.file)
	}
	return out
}

// named returns the types that p defines at its top level.
func (p *pkg) named() []*types.Named {
	var all []*types.Named
	for _, name := range p.types.Scope().Names() {
		if def, ok := p.types.Scope().Lookup(name).(*types.TypeName); ok && !def.IsAlias() {
			if named, ok := def.Type().(*types.Named); ok {
				all = append(all, named)
			}
		}
	}
	return all
}
