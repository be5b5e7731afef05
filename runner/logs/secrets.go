package logs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

const (
	shortestSecret = 4        // bytes; a shorter value occurs in everything
	shortestLine   = 8        // bytes, of a line of a secret that is hidden alone too
	mostSecrets    = 64 << 10 // bytes of all values
)

// hidden stands in the log for each run of bytes that belong to secrets.
const hidden = "***"

// Secrets find the values of secrets in a stream. They are immutable; nil finds nothing.
type Secrets struct {
	nodes  []node
	begins [256]bool // the bytes with which a value begins
}

// NewSecrets returns a finder of the given values, by the names of the secrets; nil without values. It finds each value
// as it is, without line breaks around it; of a value with several lines, which end in \n or \r\n, it also finds each
// line of at least 8 bytes alone, without spaces around it. It finds no other encodings of a value, as base64. A value
// below 4 bytes is an error, and so are values above 64 KiB together.
func NewSecrets(values map[string][]byte) (*Secrets, error) {
	s := &Secrets{nodes: make([]node, 1)}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := bytes.Trim(values[name], "\r\n")
		if len(value) < shortestSecret {
			return nil, fmt.Errorf("the secret %s has %d bytes: hiding a value so short would hide much of the output, "+
				"so use one of at least %d bytes", name, len(value), shortestSecret)
		}
		if total += len(value); total > mostSecrets {
			return nil, fmt.Errorf("with the secret %s, the secrets have %d bytes together: use at most %d",
				name, total, mostSecrets)
		}
		s.addValue(value)
	}
	if total == 0 {
		return nil, nil
	}
	s.link()
	return s, nil
}

func (s *Secrets) addValue(value []byte) {
	unix := bytes.ReplaceAll(value, []byte("\r\n"), []byte("\n"))
	s.add(value)
	s.add(unix)
	s.add(bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n"))) // as a terminal shows it
	if !bytes.Contains(unix, []byte("\n")) {
		return
	}
	for line := range bytes.Lines(unix) {
		if line = bytes.TrimSpace(line); len(line) >= shortestLine {
			s.add(line)
		}
	}
}

// A node is a state of an automaton of Aho and Corasick: the bytes on the way to it from the root, node 0, are the
// longest end of the input with which a value begins.
type node struct {
	child, sibling int32 // 0: no such node
	fail           int32 // the state for the longest end of these bytes that is shorter
	depth          int32 // the number of bytes
	match          int32 // the length of the longest value with which the bytes end; 0 without one
	b              byte  // the last of the bytes
}

func (s *Secrets) add(value []byte) {
	state := int32(0)
	s.begins[value[0]] = true
	for _, b := range value {
		next := s.child(state, b)
		if next == 0 {
			next = int32(len(s.nodes))
			s.nodes = append(s.nodes, node{sibling: s.nodes[state].child, depth: s.nodes[state].depth + 1, b: b})
			s.nodes[state].child = next
		}
		state = next
	}
	s.nodes[state].match = int32(len(value))
}

func (s *Secrets) child(state int32, b byte) int32 {
	next := s.nodes[state].child
	for next != 0 && s.nodes[next].b != b {
		next = s.nodes[next].sibling
	}
	return next
}

// link sets fail and match of all nodes, in the order of their depths.
func (s *Secrets) link() {
	for queue := []int32{0}; len(queue) > 0; queue = queue[1:] {
		parent := queue[0]
		for state := s.nodes[parent].child; state != 0; state = s.nodes[state].sibling {
			queue = append(queue, state)
			n := &s.nodes[state]
			if parent != 0 {
				n.fail = s.step(s.nodes[parent].fail, n.b)
			}
			n.match = max(n.match, s.nodes[n.fail].match)
		}
	}
}

// step is the state that follows on the byte b.
func (s *Secrets) step(state int32, b byte) int32 {
	for {
		if next := s.child(state, b); next != 0 || state == 0 {
			return next
		}
		state = s.nodes[state].fail
	}
}
