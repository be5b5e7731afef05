package modelserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Script is the answer to one request or to several.
//
// A request takes, in this order: the steps marked in its last user message ("[[error 500]]", any number
// of marks, with "[[then]]" before those of the next answer of a loop of tools); a script for a word of its
// input; a script for its model; the oldest script of the queue (those without a word or a model) that is
// not used up; a short text. Scripts without end answer after the others are used up.
type Script struct {
	Word  string   `json:"word,omitempty"`  // only for requests whose input has it
	Model string   `json:"model,omitempty"` // only for requests of this model; not beside Word
	Times int      `json:"times,omitempty"` // how many requests it answers; 0 is one, -1 is all
	Steps []string `json:"steps"`           // see Step
}

// ParseScripts reads one script or a list of them from JSON.
func ParseScripts(raw []byte) ([]Script, error) {
	var list []Script
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '{' {
		raw = append(append([]byte{'['}, trimmed...), ']')
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("cannot read scripts: %w", err)
	}
	return list, nil
}

// Script queues the answer to the next request that no other script takes.
func (s *Server) Script(steps ...string) error { return s.Add(Script{Steps: steps}) }

// Always answers so every request of model that no queued script takes; an empty model means any.
func (s *Server) Always(model string, steps ...string) error {
	return s.Add(Script{Model: model, Times: -1, Steps: steps})
}

// Add queues scripts; none is queued when one has a step that cannot be read.
func (s *Server) Add(list ...Script) error {
	parsed := make([]queued, 0, len(list))
	for _, script := range list {
		steps, err := ParseSteps(script.Steps)
		if err != nil {
			return err
		}
		left := script.Times
		if left == 0 {
			left = 1
		}
		parsed = append(parsed, queued{word: script.Word, model: script.Model, left: left, steps: steps})
	}
	s.scripts.add(parsed)
	return nil
}

type queued struct {
	word  string
	model string
	left  int // negative: without end
	steps []Step
}

// scripts are the scripts for further requests.
type scripts struct {
	mu   sync.Mutex
	list []queued
}

func (s *scripts) add(list []queued) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, list...)
}

func (s *scripts) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
}

// take uses up one answer of the first script that is for the request. If there is none, the newest of
// those without end answers.
func (s *scripts) take(isFor func(queued) bool) ([]Step, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var endless *queued
	for i := range s.list {
		switch q := &s.list[i]; {
		case !isFor(*q) || q.left == 0:
		case q.left < 0:
			endless = q
		default:
			q.left--
			return q.steps, true
		}
	}
	if endless == nil {
		return nil, false
	}
	return endless.steps, true
}

// choose names the script that answers body, for the record, beside its steps.
func (s *Server) choose(body Body) (string, []Step, error) {
	if marked, err := markedSteps(body.Input); len(marked) > 0 || err != nil {
		return "marker", marked, err
	}
	for _, kind := range []struct {
		name  string
		isFor func(queued) bool
	}{
		{"word", func(q queued) bool { return q.word != "" && body.contains(q.word) }},
		{"model", func(q queued) bool { return q.word == "" && q.model != "" && q.model == body.Model }},
		{"queue", func(q queued) bool { return q.word == "" && q.model == "" }},
	} {
		if steps, ok := s.scripts.take(kind.isFor); ok {
			return kind.name, steps, nil
		}
	}
	return "default", []Step{{Verb: "text", Text: "hello from the model server"}}, nil
}

var mark = regexp.MustCompile(`(?s)\[\[(.+?)\]\]`)

// markedSteps are those of the last user message that are due: the mark "then" separates the answers to the
// requests of a loop of tools, each of which brings the results of one answer's calls.
func markedSteps(input []json.RawMessage) ([]Step, error) {
	text, results := lastUserText(input)
	var due []string
	part := 0
	for _, m := range mark.FindAllStringSubmatch(text, -1) {
		if m[1] == "then" {
			part++
		} else if part == results {
			due = append(due, m[1])
		}
	}
	return ParseSteps(due)
}

// lastUserText is the text of the last user message, and the number of answers whose results follow it. It
// is empty if the input ends with an answer. A developer message after it (a sentence that asks for a call)
// is skipped.
func lastUserText(input []json.RawMessage) (text string, results int) {
	var after string // the type of the item after this one
	for i := len(input) - 1; i >= 0; i-- {
		var item struct {
			Type, Role string
			Content    []struct{ Text string }
		}
		if json.Unmarshal(input[i], &item) != nil {
			return "", 0
		}
		switch {
		case item.Role == "user":
			for _, part := range item.Content {
				text += part.Text
			}
			return text, results
		case item.Role == "developer":
			continue
		case results == 0 && !isResult(item.Type):
			return "", 0
		case isResult(item.Type) && !isResult(after):
			results++
		}
		after = item.Type
	}
	return "", 0
}

func isResult(kind string) bool { return strings.HasSuffix(kind, "_call_output") }
