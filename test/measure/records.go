package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// record is one struct and the files that use it, of any package.
type record struct {
	name            string
	fields          int
	touched, writes map[string]bool
}

// recordTable lists the structs that most files touch. A file touches a struct if
// it names the type or one of its fields; a file writes it if it assigns to a
// field, or to a part of the value in a field. A literal of the struct is no write.
func (t *tree) recordTable(n int) table {
	byObject, all := t.records()
	for _, p := range t.packages {
		for _, file := range p.files {
			name := t.fset.Position(file.FileStart).Filename
			ast.Inspect(file, func(node ast.Node) bool {
				if id, ok := node.(*ast.Ident); ok {
					if r := byObject[origin(p.info.ObjectOf(id))]; r != nil {
						r.touched[name] = true
					}
				}
				for _, target := range targets(node) {
					p.written(target, byObject, name)
				}
				return true
			})
		}
	}
	slices.SortFunc(all, func(a, b *record) int {
		return cmp.Or(cmp.Compare(len(b.touched), len(a.touched)), cmp.Compare(a.name, b.name))
	})
	out := table{
		title: "structs that most files touch",
		heads: []string{"struct", "fields", "touched in", "written in"},
	}
	for _, r := range all[:min(n, len(all))] {
		out.add(r.name, r.fields, len(r.touched), len(r.writes))
	}
	return out
}

// records returns the structs of the tree, and each by its type name and its fields.
func (t *tree) records() (map[types.Object]*record, []*record) {
	byObject, all := map[types.Object]*record{}, []*record(nil)
	for _, p := range t.packages {
		for _, named := range p.named() {
			fields, ok := named.Underlying().(*types.Struct)
			if !ok {
				continue
			}
			r := &record{
				name: p.path + "." + named.Obj().Name(), fields: fields.NumFields(),
				touched: map[string]bool{}, writes: map[string]bool{},
			}
			byObject[named.Obj()] = r
			for field := range fields.Fields() {
				byObject[field] = r
			}
			all = append(all, r)
		}
	}
	return byObject, all
}

// origin returns the generic definition of a field of an instantiated struct.
func origin(o types.Object) types.Object {
	if v, ok := o.(*types.Var); ok {
		return v.Origin()
	}
	return o
}

// targets returns what a statement assigns to.
func targets(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	}
	return nil
}

// written notes the file for each struct whose field lies on the way to target.
func (p *pkg) written(target ast.Expr, byObject map[types.Object]*record, file string) {
	for {
		switch x := target.(type) {
		case *ast.SelectorExpr:
			if r := byObject[origin(p.info.Uses[x.Sel])]; r != nil {
				r.writes[file] = true
			}
			target = x.X
		case *ast.IndexExpr:
			target = x.X
		case *ast.StarExpr:
			target = x.X
		case *ast.ParenExpr:
			target = x.X
		default:
			return
		}
	}
}
