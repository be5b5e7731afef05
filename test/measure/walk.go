package main

import (
	"fmt"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// sinks are the packages at which the walk of a request has reached the worker.
var sinks = []string{"workers", "appserver"}

// walk is the way of a reader who follows a request from its handler: depth
// first, in the order of the source, into each function once.
type walk struct {
	name  string
	tree  *tree
	calls calls
	leads map[*types.Func]bool    // the functions to enter; nil for every function
	home  map[*types.Package]bool // the packages of the handler
	seen  map[*types.Func]bool
	steps []step
}

// step is a function that the reader comes to, and how deep below the handler.
type step struct {
	function *types.Func
	depth    int
	moved    bool // from another file
}

// walkTable summarises walks.
//
// A walk begins at the functions in the row of the route table. "To the worker"
// is a walk into every function from which a function of the sinks (packages
// workers and appserver) can be reached; "everything" is a walk into every
// function. A function of the sinks is a step, too, and no walk goes deeper
// there; "above" are the steps outside of the sinks. For a method of an interface
// of ours the walk goes into its implementations: into those in the handler's
// package if there are any, otherwise into all. A file is entered when a step leads
// into it from a function of another file; every time after the first is a return.
// "To the turn" is the walk to the worker up to the step that starts the turn there,
// StartTurn of a connection of package appserver.
func walkTable(walks []*walk) table {
	out := table{
		title: "walks of a request, from its route",
		heads: []string{"from", "steps", "above", "files", "returns", "most entered file", "times"},
	}
	for _, w := range walks {
		entered := w.entered()
		returns, most := 0, ""
		for _, file := range slices.Sorted(maps.Keys(entered)) {
			returns += entered[file] - 1
			if most == "" || entered[file] > entered[most] {
				most = file
			}
		}
		out.add(w.name, len(w.steps), w.above(), len(entered), returns, most, entered[most])
	}
	return out
}

// walks follows the measured routes that the tree has, and the named functions.
func (t *tree) walks(names []string) ([]*walk, error) {
	all := t.calls()
	leads := all.leading(t.isSink)
	var walks []*walk
	add := func(name string, begin []*types.Func) {
		worker := t.walk(name+" to the worker", all, leads, begin)
		if start := slices.IndexFunc(worker.steps, t.startsTurn); start >= 0 {
			turn := *worker
			turn.name, turn.steps = name+" to the turn", worker.steps[:start+1]
			walks = append(walks, &turn)
		}
		walks = append(walks, worker, t.walk(name+" everything", all, nil, begin))
	}
	for _, route := range measured {
		if begin := t.handlers(route); len(begin) > 0 {
			add(route, begin)
		}
	}
	for _, name := range names {
		f := t.find(name)
		if f == nil {
			return nil, fmt.Errorf("there is no function %s (hint: PACKAGE.FUNC, such as proxy.Server.chat)", name)
		}
		add(name, []*types.Func{f})
	}
	return walks, nil
}

func (t *tree) walk(name string, all calls, leads map[*types.Func]bool, begin []*types.Func) *walk {
	w := &walk{
		name: name, tree: t, calls: all, leads: leads,
		home: map[*types.Package]bool{}, seen: map[*types.Func]bool{},
	}
	for _, f := range begin {
		w.home[f.Pkg()] = true
	}
	for _, f := range begin {
		w.enter(f, nil, 0)
	}
	return w
}

func (t *tree) isSink(f *types.Func) bool {
	path := t.byPath[f.Pkg().Path()].path
	return slices.Contains(sinks, filepath.Base(path))
}

func (t *tree) startsTurn(s step) bool {
	return strings.HasSuffix(t.title(s.function), "appserver.Conn.StartTurn")
}

// find returns the function of that name, nil if there is none.
func (t *tree) find(name string) *types.Func {
	for _, p := range t.packages {
		for id, object := range p.info.Defs {
			if f, ok := object.(*types.Func); ok && id != nil && t.title(f) == name {
				return f
			}
		}
	}
	return nil
}

// title is how the output names a function: PACKAGE.FUNC or PACKAGE.TYPE.METHOD.
func (t *tree) title(f *types.Func) string {
	name := f.Name()
	if r := f.Signature().Recv(); r != nil {
		typ := r.Type()
		if pointer, ok := typ.(*types.Pointer); ok {
			typ = pointer.Elem()
		}
		if named, ok := typ.(*types.Named); ok {
			name = named.Obj().Name() + "." + name
		}
	}
	return t.byPath[f.Pkg().Path()].path + "." + name
}

// leading returns the functions from which a sink can be reached, sinks included.
func (c calls) leading(sink func(*types.Func) bool) map[*types.Func]bool {
	leads := map[*types.Func]bool{}
	for f := range c {
		leads[f] = sink(f)
	}
	for grown := true; grown; {
		grown = false
		for f, named := range c {
			if !leads[f] && slices.ContainsFunc(named, func(to *types.Func) bool { return leads[to] }) {
				leads[f], grown = true, true
			}
		}
	}
	return leads
}

// enter is a step into f, if it is on the way and new, and the steps from there.
func (w *walk) enter(f, from *types.Func, depth int) {
	if w.seen[f] || w.leads != nil && !w.leads[f] {
		return
	}
	w.seen[f] = true
	if abstract(f) {
		for _, to := range w.near(w.calls[f]) {
			w.enter(to, from, depth)
		}
		return
	}
	w.steps = append(w.steps, step{f, depth, from == nil || w.file(from) != w.file(f)})
	if w.tree.isSink(f) {
		return
	}
	for _, to := range w.calls[f] {
		w.enter(to, f, depth+1)
	}
}

// near returns those of an interface's implementations that are in the handler's
// package, or all.
func (w *walk) near(all []*types.Func) []*types.Func {
	home := slices.DeleteFunc(slices.Clone(all), func(f *types.Func) bool { return !w.home[f.Pkg()] })
	if len(home) == 0 {
		return all
	}
	return home
}

// above is the number of steps outside of the sinks.
func (w *walk) above() int {
	n := 0
	for _, s := range w.steps {
		if !w.tree.isSink(s.function) {
			n++
		}
	}
	return n
}

// file returns the file of f, relative to the module.
func (w *walk) file(f *types.Func) string {
	return filepath.Join(w.tree.byPath[f.Pkg().Path()].path, w.tree.file(f.Pos()))
}

// entered counts how often the walk comes into each file.
func (w *walk) entered() map[string]int {
	entered := map[string]int{}
	for _, s := range w.steps {
		if s.moved {
			entered[w.file(s.function)]++
		}
	}
	return entered
}

// lines are the steps, one a line, each indented by its depth.
func (w *walk) lines() []string {
	var lines []string
	for i, s := range w.steps {
		indent := strings.Repeat("  ", s.depth)
		lines = append(lines, fmt.Sprintf("%3d %s%s (%s)", i+1, indent, w.tree.title(s.function), w.file(s.function)))
	}
	return lines
}
