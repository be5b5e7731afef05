package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// textCompletion is a completion of a prompt, or a chunk of one.
type textCompletion struct {
	ID, Model string
	Created   int64
	Choices   []struct {
		Index        int
		Text         string
		FinishReason string `json:"finish_reason"`
	}
	Usage *usage
}

// TextCompletion checks a whole completion of n choices.
func (s *Schema) TextCompletion(data []byte, n int) ([]Answer, error) {
	if err := s.Check(Text, data); err != nil {
		return nil, err
	}
	var c textCompletion
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	if len(c.Choices) != n || c.Usage == nil {
		return nil, fmt.Errorf("not %d choices with their usage: %s", n, excerpt(data))
	}
	answers := make([]Answer, n)
	for i, choice := range c.Choices {
		if choice.Index != i {
			return nil, fmt.Errorf("choice %d has the index %d", i, choice.Index)
		}
		answers[i] = Answer{ID: c.ID, Model: c.Model, Text: choice.Text, Finish: choice.FinishReason,
			Tokens: c.Usage.TotalTokens}
	}
	return answers, nil
}

// textStream is the state of a streamed completion.
type textStream struct {
	schema  *Schema
	answers []Answer
	first   textCompletion
	usage   bool
	done    bool
	failure *Failure
}

// TextStream checks a streamed completion of n choices: texts, a finish_reason for each
// choice, the usage in a chunk of its own, [DONE]. An error frame is the end of a stream;
// that is no error of TextStream.
func (s *Schema) TextStream(from io.Reader, n int) ([]Answer, error) {
	st := &textStream{schema: s, answers: make([]Answer, n)}
	if err := events(from, st.take); err != nil {
		return nil, err
	}
	if st.done == (st.failure != nil) {
		return nil, errors.New("a stream ends in [DONE] or in an error, and in one of them")
	}
	for i := range st.answers {
		a := &st.answers[i]
		a.ID, a.Model, a.Done, a.Failure = st.first.ID, st.first.Model, st.done, st.failure
		if st.done && a.Finish == "" {
			return nil, fmt.Errorf("[DONE] without finish_reason of choice %d", i)
		}
	}
	return st.answers, nil
}

func (st *textStream) take(e event) error {
	var failed struct{ Error *Failure }
	switch {
	case st.done || st.failure != nil:
		return fmt.Errorf("an event after the end: %s", excerpt(e.data))
	case e.name != "":
		return fmt.Errorf("events of completions have no name: %q", e.name)
	case string(e.data) == "[DONE]":
		st.done = true
		return nil
	case json.Unmarshal(e.data, &failed) == nil && failed.Error != nil:
		st.failure = failed.Error
		return st.schema.Check(Error, e.data)
	}
	if err := st.schema.Check(TextChunk, e.data); err != nil {
		return err
	}
	var c textCompletion
	if err := json.Unmarshal(e.data, &c); err != nil {
		return err
	}
	if err := st.chunk(c); err != nil {
		return fmt.Errorf("%w: %s", err, excerpt(e.data))
	}
	return nil
}

func (st *textStream) chunk(c textCompletion) error {
	if st.first.ID == "" {
		st.first = c
	}
	switch {
	case c.ID != st.first.ID || c.Model != st.first.Model || c.Created != st.first.Created:
		return errors.New("id, model or created change")
	case st.usage:
		return errors.New("a chunk after the usage")
	case c.Usage != nil && len(c.Choices) == 0:
		st.usage = true
		for i := range st.answers {
			st.answers[i].Tokens = c.Usage.TotalTokens
		}
		return nil
	case c.Usage != nil || len(c.Choices) != 1:
		return errors.New("a chunk has one choice, or none and the usage")
	}
	choice := c.Choices[0]
	if choice.Index < 0 || choice.Index >= len(st.answers) || st.answers[choice.Index].Finish != "" {
		return fmt.Errorf("there is no choice %d, or it has ended", choice.Index)
	}
	a := &st.answers[choice.Index]
	a.Text, a.Finish = a.Text+choice.Text, choice.FinishReason
	return nil
}
