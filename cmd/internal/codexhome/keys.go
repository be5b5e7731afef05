package codexhome

import (
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// keyLines has the line of each dotted key of a TOML document. With it, an error about a rendered file names the
// place in its source.
type keyLines struct {
	line map[string]int
	key  map[int]string // the first key of a line
}

// indexKeys reads as far as the document is valid TOML.
func indexKeys(doc []byte) keyLines {
	idx := keyLines{line: map[string]int{}, key: map[int]string{}}
	var p unstable.Parser
	p.Reset(doc)
	var table []string
	for p.NextExpression() {
		expr := p.Expression()
		switch expr.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = idx.add(&p, nil, expr)
		case unstable.KeyValue:
			idx.addValue(&p, table, expr)
		}
	}
	return idx
}

func (idx keyLines) addValue(p *unstable.Parser, table []string, pair *unstable.Node) {
	path := idx.add(p, table, pair)
	if pair.Value().Kind != unstable.InlineTable {
		return
	}
	for it := pair.Value().Children(); it.Next(); {
		idx.addValue(p, path, it.Node())
	}
}

// add records the key of a table or pair below table, and returns its whole path.
func (idx keyLines) add(p *unstable.Parser, table []string, node *unstable.Node) []string {
	path := append([]string(nil), table...)
	line := 0
	for it := node.Key(); it.Next(); {
		path = append(path, string(it.Node().Data))
		line = p.Shape(it.Node().Raw).Start.Line
	}
	key := strings.Join(path, ".")
	if _, ok := idx.line[key]; !ok {
		idx.line[key] = line
	}
	if _, ok := idx.key[line]; !ok {
		idx.key[line] = key
	}
	return path
}

// find returns the line of key, or of the nearest table that holds it, or of the first key in it.
func (idx keyLines) find(key string) (int, bool) {
	for k := key; k != ""; k = parent(k) {
		if line, ok := idx.line[k]; ok {
			return line, true
		}
	}
	first := 0
	for k, line := range idx.line {
		if strings.HasPrefix(k, key+".") && (first == 0 || line < first) {
			first = line
		}
	}
	return first, first > 0
}

func parent(key string) string {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return ""
	}
	return key[:i]
}
