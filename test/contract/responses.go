package contract

import (
	"encoding/json"
	"errors"
	"fmt"
)

type response struct {
	ID     string
	Model  string
	Status string
	Error  *Failure
	Output []json.RawMessage
	Usage  *usage
}

type part struct{ Type, Text, Refusal string }

type item struct {
	ID        string
	Type      string
	Status    string
	Content   []part
	Summary   []part
	CallID    string `json:"call_id"`
	Name      string
	Arguments string
}

// Response checks a whole response.
func (s *Schema) Response(data []byte) (Answer, error) {
	if err := s.Check(Response, data); err != nil {
		return Answer{}, err
	}
	var r response
	if err := json.Unmarshal(data, &r); err != nil {
		return Answer{}, err
	}
	return r.answer()
}

func (r response) answer() (Answer, error) {
	a := Answer{ID: r.ID, Model: r.Model, Finish: r.Status, Failure: r.Error}
	if (r.Status == "failed") != (r.Error != nil) {
		return a, fmt.Errorf("a response %s with error %v", r.Status, r.Error)
	}
	if r.Usage != nil {
		a.Tokens = r.Usage.TotalTokens
	}
	for i, raw := range r.Output {
		var it item
		if err := json.Unmarshal(raw, &it); err != nil {
			return a, err
		}
		if err := a.add(it, r.Status == "completed"); err != nil {
			return a, fmt.Errorf("output item %d: %w: %s", i, err, excerpt(raw))
		}
	}
	return a, nil
}

func (a *Answer) add(it item, whole bool) error {
	if whole && it.Status != "completed" && it.Type != "reasoning" { // whose status is optional
		return fmt.Errorf("status %q in a completed response", it.Status)
	}
	switch it.Type {
	case "message":
		for _, p := range it.Content {
			a.Text += p.Text
			a.Refusal += p.Refusal
		}
	case "reasoning":
		for _, p := range it.Summary {
			a.Reasoning += p.Text
		}
	case "function_call":
		if it.CallID == "" || it.Name == "" {
			return errors.New("a call without id or name")
		}
		a.Calls = append(a.Calls, Call{it.CallID, it.Name, it.Arguments})
	}
	return nil
}
