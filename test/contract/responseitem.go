package contract

import (
	"errors"
	"fmt"
	"strings"
)

// openItem is an output item between added and done.
type openItem struct {
	item
	parts     []*openPart // of a message's content, or of a reasoning's summary
	arguments strings.Builder
	argued    bool // the arguments are done
}

type openPart struct {
	kind      string
	text      strings.Builder
	textDone  bool
	wholeDone bool
}

// matches compares a finished item with its deltas.
func (it *openItem) matches(done item) error {
	parts := append(append([]part{}, done.Content...), done.Summary...)
	if it.Type == "function_call" {
		if !it.argued || done.Arguments != it.arguments.String() || done.Name != it.Name || done.CallID != it.CallID {
			return errors.New("the call differs from its events")
		}
		return nil
	}
	if done.Type == "reasoning" {
		parts = done.Summary
	}
	if len(parts) != len(it.parts) {
		return fmt.Errorf("%d parts, %d of them in events", len(parts), len(it.parts))
	}
	for i, p := range it.parts {
		if !p.wholeDone || parts[i].Type != p.kind || parts[i].Text+parts[i].Refusal != p.text.String() {
			return fmt.Errorf("part %d differs from its events", i)
		}
	}
	return nil
}

// step is an event within an item.
func (it *openItem) step(e responseEvent) error {
	switch e.Type {
	case "response.content_part.added", "response.reasoning_summary_part.added":
		if e.ContentIndex+e.SummaryIndex != len(it.parts) || e.Part.Text+e.Part.Refusal != "" {
			return errors.New("a part out of order, or with text in it")
		}
		it.parts = append(it.parts, &openPart{kind: e.Part.Type})
		return nil
	case "response.function_call_arguments.delta":
		it.arguments.WriteString(e.Delta)
		return nil
	case "response.function_call_arguments.done":
		it.argued = true
		return same(e.Arguments, it.arguments.String())
	}
	i := e.ContentIndex + e.SummaryIndex
	if i >= len(it.parts) {
		return fmt.Errorf("there is no part %d", i)
	}
	return it.parts[i].step(e)
}

// step is an event within a part.
func (p *openPart) step(e responseEvent) error {
	if p.wholeDone {
		return errors.New("the part is done")
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta":
		p.text.WriteString(e.Delta)
		if p.textDone {
			return errors.New("the text is done")
		}
		return nil
	case "response.output_text.done", "response.refusal.done", "response.reasoning_summary_text.done":
		p.textDone = true
		return same(e.Text+e.Refusal, p.text.String())
	case "response.content_part.done", "response.reasoning_summary_part.done":
		p.wholeDone = true
		if !p.textDone {
			return errors.New("the part is done before its text")
		}
		return same(e.Part.Text+e.Part.Refusal, p.text.String())
	}
	return fmt.Errorf("%s is not expected here", e.Type)
}

func same(done, deltas string) error {
	if done != deltas {
		return fmt.Errorf("done with %d bytes, %d of them in deltas", len(done), len(deltas))
	}
	return nil
}
