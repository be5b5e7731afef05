package main

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
)

// calls maps a function of the product to the functions of the product that its
// body names, in the order of the source and each once. A function that is
// passed on as a value counts as called where it is named. A method of one of
// our interfaces calls its implementations.
type calls map[*types.Func][]*types.Func

func (t *tree) calls() calls {
	all := calls{}
	for _, p := range t.packages {
		for _, file := range p.files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
					from := p.info.Defs[f.Name].(*types.Func)
					all[from] = p.called(t, f.Body)
				}
			}
		}
	}
	for _, called := range maps.Clone(all) {
		for _, f := range called {
			if abstract(f) && all[f] == nil {
				all[f] = t.implementations(f)
			}
		}
	}
	return all
}

// called returns the functions that the body names.
func (p *pkg) called(t *tree, body *ast.BlockStmt) []*types.Func {
	var all []*types.Func
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if f, ok := p.info.Uses[id].(*types.Func); ok && t.ours(f) && !slices.Contains(all, f.Origin()) {
				all = append(all, f.Origin())
			}
		}
		return true
	})
	return all
}

// abstract reports whether f is a method of an interface.
func abstract(f *types.Func) bool {
	receiver := f.Signature().Recv()
	return receiver != nil && types.IsInterface(receiver.Type())
}

// implementations returns the methods that a method of an interface can be.
func (t *tree) implementations(f *types.Func) []*types.Func {
	contract := f.Signature().Recv().Type().Underlying().(*types.Interface)
	var all []*types.Func
	for _, p := range t.packages {
		for _, named := range p.named() {
			if types.IsInterface(named) || named.TypeParams() != nil ||
				!types.Implements(types.NewPointer(named), contract) {
				continue
			}
			object, _, _ := types.LookupFieldOrMethod(named, true, f.Pkg(), f.Name())
			if method, ok := object.(*types.Func); ok && t.ours(method) {
				all = append(all, method.Origin())
			}
		}
	}
	return all
}
