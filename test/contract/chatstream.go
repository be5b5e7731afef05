package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// chatStream is the state of a streamed chat completion.
type chatStream struct {
	schema  *Schema
	answers []Answer
	begun   []bool // the role is out
	texts   []strings.Builder
	id      string
	model   string
	created int64
	usage   bool
	failure *Failure
	done    bool
}

// ChatStream checks a streamed chat completion of n choices: the role, then
// content and calls, finish_reason, the usage in a chunk of its own, [DONE].
// An error frame is the end of a stream; that is no error of ChatStream.
func (s *Schema) ChatStream(from io.Reader, n int) ([]Answer, error) {
	st := &chatStream{schema: s, answers: make([]Answer, n), begun: make([]bool, n), texts: make([]strings.Builder, n)}
	if err := events(from, st.take); err != nil {
		return nil, err
	}
	for i := range st.answers {
		a := &st.answers[i]
		a.ID, a.Model, a.Done, a.Failure, a.Text = st.id, st.model, st.done, st.failure, st.texts[i].String()
		if !st.done {
			continue
		}
		if err := a.consistent(); err != nil {
			return nil, fmt.Errorf("choice %d: %w", i, err)
		}
	}
	if st.done == (st.failure != nil) {
		return nil, errors.New("a stream ends in [DONE] or in an error, and in one of them")
	}
	return st.answers, nil
}

func (st *chatStream) take(e event) error {
	if st.done || st.failure != nil {
		return fmt.Errorf("an event after the end: %s", excerpt(e.data))
	}
	if e.name != "" {
		return fmt.Errorf("chat events have no name: %q", e.name)
	}
	if string(e.data) == "[DONE]" {
		st.done = true
		return st.complete()
	}
	var failed struct{ Error *Failure }
	if json.Unmarshal(e.data, &failed) == nil && failed.Error != nil {
		st.failure = failed.Error
		return st.schema.Check(Error, e.data)
	}
	if err := st.schema.Check(Chunk, e.data); err != nil {
		return err
	}
	return st.chunk(e.data)
}

func (st *chatStream) complete() error {
	for i, a := range st.answers {
		if a.Finish == "" {
			return fmt.Errorf("[DONE] without finish_reason of choice %d", i)
		}
	}
	return nil
}

func (st *chatStream) chunk(data []byte) error {
	var c struct {
		ID, Model string
		Created   int64
		Choices   []struct {
			Index        int
			Delta        message
			FinishReason string `json:"finish_reason"`
		}
		Usage *usage
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	if st.id == "" {
		st.id, st.model, st.created = c.ID, c.Model, c.Created
	}
	if c.ID != st.id || c.Model != st.model || c.Created != st.created {
		return fmt.Errorf("id, model or created change: %s", excerpt(data))
	}
	if st.usage {
		return fmt.Errorf("a chunk after the usage: %s", excerpt(data))
	}
	if c.Usage != nil {
		st.usage = true
		if len(c.Choices) > 0 {
			return fmt.Errorf("usage in a chunk with choices: %s", excerpt(data))
		}
		for i := range st.answers {
			st.answers[i].Tokens = c.Usage.TotalTokens
		}
		return st.complete()
	}
	if len(c.Choices) != 1 {
		return fmt.Errorf("a chunk with %d choices: %s", len(c.Choices), excerpt(data))
	}
	choice := c.Choices[0]
	if choice.Index < 0 || choice.Index >= len(st.answers) {
		return fmt.Errorf("there is no choice %d", choice.Index)
	}
	if err := st.delta(choice.Index, choice.Delta); err != nil {
		return fmt.Errorf("%w: %s", err, excerpt(data))
	}
	st.answers[choice.Index].Finish = choice.FinishReason
	return nil
}

func (st *chatStream) delta(index int, d message) error {
	a := &st.answers[index]
	switch {
	case a.Finish != "":
		return errors.New("a chunk after finish_reason")
	case (d.Role == "assistant") == st.begun[index]:
		return errors.New("the role is not in the first chunk, or again in a later one")
	}
	st.begun[index] = true
	st.texts[index].WriteString(deref(d.Content))
	a.Refusal += deref(d.Refusal)
	a.Reasoning += d.ReasoningContent
	for _, call := range d.ToolCalls {
		if err := a.callDelta(call); err != nil {
			return err
		}
	}
	return nil
}

// callDelta: the first delta of a call has its id, type and name, those that
// follow only arguments; calls come one after the other.
func (a *Answer) callDelta(c toolCall) error {
	switch {
	case c.Index == nil:
		return errors.New("a call delta without index")
	case *c.Index == len(a.Calls) && c.ID != "" && c.Type == "function" && c.Function.Name != "":
		a.Calls = append(a.Calls, Call{ID: c.ID, Name: c.Function.Name})
	case *c.Index != len(a.Calls)-1 || c.ID != "" || c.Function.Name != "":
		return errors.New("a call delta out of order")
	}
	a.Calls[*c.Index].Arguments += c.Function.Arguments
	return nil
}
