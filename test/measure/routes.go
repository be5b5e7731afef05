package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// measured are the routes whose walks are measured.
var measured = []string{"POST /v1/chat/completions", "POST /v1/responses"}

// handlers returns the functions that the row of a route refers to: the literal
// or call in the product that has the method and path of the route as constants.
// For a value of one of our types that is an http.Handler, its ServeHTTP.
func (t *tree) handlers(route string) []*types.Func {
	var found []*types.Func
	for _, p := range t.packages {
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				if row := cells(n); p.names(row, route) {
					for _, cell := range row {
						found = append(found, t.functions(p, cell)...)
					}
				}
				return true
			})
		}
	}
	return found
}

// cells are the elements of a literal or the arguments of a call.
func cells(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		return n.Args
	case *ast.CompositeLit:
		var values []ast.Expr
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				e = pair.Value
			}
			values = append(values, e)
		}
		return values
	}
	return nil
}

// names reports whether the constants of the row are the route's method and path, in
// one string or in two.
func (p *pkg) names(row []ast.Expr, route string) bool {
	var constants []string
	for _, e := range row {
		if v := p.info.Types[e].Value; v != nil && v.Kind() == constant.String {
			constants = append(constants, constant.StringVal(v))
		}
	}
	method, path, _ := strings.Cut(route, " ")
	return slices.Contains(constants, route) || slices.Contains(constants, method) && slices.Contains(constants, path)
}

// functions returns our functions that e names, in the order of the source, and
// the ServeHTTP of a value of ours.
func (t *tree) functions(p *pkg, e ast.Expr) []*types.Func {
	var all []*types.Func
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if f, ok := p.info.Uses[id].(*types.Func); ok && t.ours(f) {
				all = append(all, f.Origin())
			}
		}
		return true
	})
	if typ := p.info.TypeOf(e); typ != nil {
		object, _, _ := types.LookupFieldOrMethod(typ, true, p.types, "ServeHTTP")
		if f, ok := object.(*types.Func); ok && t.ours(f) && !types.IsInterface(typ) {
			all = append(all, f.Origin())
		}
	}
	return all
}

// ours reports whether the product defines the object.
func (t *tree) ours(o types.Object) bool {
	return o != nil && o.Pkg() != nil && o.Pos() != token.NoPos && t.byPath[o.Pkg().Path()] != nil
}
