package strict

import (
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Lines has the line of each dotted key of a TOML document, so that an error about a value
// names the place of the value.
type Lines struct {
	line map[string]int
	key  map[int]string // the first key of a line
}

// LinesOf reads as far as the document is valid TOML.
func LinesOf(doc []byte) Lines {
	l := Lines{line: map[string]int{}, key: map[int]string{}}
	var p unstable.Parser
	p.Reset(doc)
	var table []string
	for p.NextExpression() {
		expr := p.Expression()
		switch expr.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = l.add(&p, nil, expr)
		case unstable.KeyValue:
			l.addValue(&p, table, expr)
		}
	}
	return l
}

func (l Lines) addValue(p *unstable.Parser, table []string, pair *unstable.Node) {
	path := l.add(p, table, pair)
	if pair.Value().Kind != unstable.InlineTable {
		return
	}
	for it := pair.Value().Children(); it.Next(); {
		l.addValue(p, path, it.Node())
	}
}

// add records the key of a table or pair below table, and returns its whole path.
func (l Lines) add(p *unstable.Parser, table []string, node *unstable.Node) []string {
	path := append([]string(nil), table...)
	line := 0
	for it := node.Key(); it.Next(); {
		path = append(path, string(it.Node().Data))
		line = p.Shape(it.Node().Raw).Start.Line
	}
	key := strings.Join(path, ".")
	if _, ok := l.line[key]; !ok {
		l.line[key] = line
	}
	if _, ok := l.key[line]; !ok {
		l.key[line] = key
	}
	return path
}

// Has reports whether the document names the key.
func (l Lines) Has(key string) bool {
	_, ok := l.line[key]
	return ok
}

// Find returns the line of key, or of the nearest table that holds it, or of the first key in it.
func (l Lines) Find(key string) (int, bool) {
	for k := key; k != ""; k = parent(k) {
		if line, ok := l.line[k]; ok {
			return line, true
		}
	}
	first := 0
	for k, line := range l.line {
		if strings.HasPrefix(k, key+".") && (first == 0 || line < first) {
			first = line
		}
	}
	return first, first > 0
}

// KeyAt is the first key of a line; empty if the line has none.
func (l Lines) KeyAt(line int) string { return l.key[line] }

func parent(key string) string {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return ""
	}
	return key[:i]
}
