package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// responseEvent has the fields of all events that this package checks.
type responseEvent struct {
	Type           string
	SequenceNumber *int            `json:"sequence_number"`
	OutputIndex    int             `json:"output_index"`
	ContentIndex   int             `json:"content_index"`
	SummaryIndex   int             `json:"summary_index"`
	ItemID         string          `json:"item_id"`
	Item           json.RawMessage `json:"item"`
	Response       json.RawMessage `json:"response"`
	Part           part
	Delta          string
	Text           string
	Refusal        string
	Arguments      string
	Code           string
	Message        string
	Param          *string
	Error          *Failure // of an event error
}

// responseStream is the state of a streamed response.
type responseStream struct {
	schema *Schema
	id     string
	next   int // sequence number
	open   map[int]*openItem
	done   []json.RawMessage // by output index
	alert  *Failure          // of the event error
	last   *response
}

// ResponseStream checks a streamed response: created, in_progress, then each
// item from added to done, then completed, incomplete, or error and failed. Each done item must
// equal its deltas, and the final response must have the done items.
func (s *Schema) ResponseStream(from io.Reader) (Answer, error) {
	st := &responseStream{schema: s, open: map[int]*openItem{}}
	if err := events(from, st.take); err != nil {
		return Answer{}, err
	}
	if st.last == nil {
		return Answer{}, errors.New("the stream ends without a final response")
	}
	answer, err := st.last.answer()
	answer.Alert = st.alert
	return answer, err
}

func (st *responseStream) take(e event) error {
	if st.last != nil {
		return fmt.Errorf("an event after the end: %s", excerpt(e.data))
	}
	if err := st.schema.CheckEvent(e.name, e.data); err != nil {
		return err
	}
	var r responseEvent
	if err := json.Unmarshal(e.data, &r); err != nil {
		return err
	}
	if r.Type != e.name || *r.SequenceNumber != st.next {
		return fmt.Errorf("event %q is %q, number %d and not %d", e.name, r.Type, *r.SequenceNumber, st.next)
	}
	st.next++
	if err := st.step(r); err != nil {
		return fmt.Errorf("%w: %s", err, excerpt(e.data))
	}
	return nil
}

func (st *responseStream) step(e responseEvent) error {
	if st.alert != nil && e.Type != "response.failed" {
		return fmt.Errorf("%s after error", e.Type)
	}
	switch e.Type {
	case "error":
		return st.warn(e)
	case "response.created", "response.in_progress":
		return st.begin(e)
	case "response.completed", "response.incomplete", "response.failed":
		return st.end(e)
	case "response.output_item.added":
		return st.add(e)
	}
	it := st.open[e.OutputIndex]
	if it == nil {
		return fmt.Errorf("item %d is not open", e.OutputIndex)
	}
	if e.Type == "response.output_item.done" {
		return st.finish(e, it)
	}
	if e.ItemID != it.ID {
		return fmt.Errorf("item %d is %q", e.OutputIndex, it.ID)
	}
	return it.step(e)
}

func (st *responseStream) begin(e responseEvent) error {
	var r response
	if err := json.Unmarshal(e.Response, &r); err != nil {
		return err
	}
	number := map[string]int{"response.created": 1, "response.in_progress": 2}[e.Type]
	if st.id == "" {
		st.id = r.ID
	}
	if st.next != number || r.Status != "in_progress" || r.ID != st.id || len(r.Output) > 0 {
		return fmt.Errorf("%s out of order, or of a response under way", e.Type)
	}
	return nil
}

func (st *responseStream) end(e responseEvent) error {
	var r response
	if err := json.Unmarshal(e.Response, &r); err != nil {
		return err
	}
	st.last = &r
	if r.ID != st.id || "response."+r.Status != e.Type {
		return fmt.Errorf("%s of response %q, not %q", e.Type, r.ID, st.id)
	}
	if r.Status == "failed" {
		return st.fail(r)
	}
	if len(st.open) > 0 || len(r.Output) != len(st.done) {
		return fmt.Errorf("%d items open, %d done, %d in the response", len(st.open), len(st.done), len(r.Output))
	}
	for i, raw := range r.Output {
		if !sameJSON(raw, st.done[i]) {
			return fmt.Errorf("output item %d is not what was done: %s", i, excerpt(st.done[i]))
		}
	}
	return nil
}

// warn takes an event error, whose flat and nested forms are the same.
func (st *responseStream) warn(e responseEvent) error {
	if st.next < 3 || e.Code != e.Error.Code || e.Message != e.Error.Message ||
		!reflect.DeepEqual(e.Param, e.Error.Param) {
		return errors.New("an error before response.in_progress, or with two meanings")
	}
	st.alert = e.Error
	return nil
}

func (st *responseStream) fail(r response) error {
	if r.Error != nil && st.alert != nil && (r.Error.Code != st.alert.Code || r.Error.Message != st.alert.Message) {
		return fmt.Errorf("error %q, and then response.failed with %q", st.alert.Code, r.Error.Code)
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func (st *responseStream) add(e responseEvent) error {
	it := &openItem{}
	if err := json.Unmarshal(e.Item, &it.item); err != nil {
		return err
	}
	switch {
	case st.next < 3:
		return errors.New("an item before response.in_progress")
	case e.OutputIndex != len(st.done)+len(st.open):
		return fmt.Errorf("item %d after %d", e.OutputIndex, len(st.done)+len(st.open)-1)
	case it.ID == "" || len(it.Content)+len(it.Summary)+len(it.Arguments) > 0:
		return errors.New("an added item has an id and nothing in it")
	case it.Status == "completed":
		return errors.New("an added item is not completed")
	}
	st.open[e.OutputIndex] = it
	return nil
}

func (st *responseStream) finish(e responseEvent, it *openItem) error {
	var done item
	if err := json.Unmarshal(e.Item, &done); err != nil {
		return err
	}
	if done.ID != it.ID || done.Type != it.Type || e.OutputIndex != len(st.done) {
		return fmt.Errorf("item %d done is not the one added", e.OutputIndex)
	}
	if err := it.matches(done); err != nil {
		return err
	}
	delete(st.open, e.OutputIndex)
	st.done = append(st.done, e.Item)
	return nil
}
