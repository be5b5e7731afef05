package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// messageEvent has the fields of all events of a streamed message.
type messageEvent struct {
	Type    string
	Message *anthropicMessage
	Index   *int
	Block   *block `json:"content_block"`
	Delta   *struct {
		block
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	Usage *anthropicUsage
}

// messageStream is the state of a streamed message.
type messageStream struct {
	schema *Schema
	answer Answer
	begun  bool
	blocks int    // those that have begun
	open   *block // the last of them, until it stops
	input  string // of an open tool_use block
	ended  bool   // message_delta has come
	failed bool
}

// MessageStream checks a streamed message: message_start, each block from its start to its stop before the next
// begins, message_delta, message_stop. A ping may come anywhere after message_start. An event error is the end of
// a stream; that is no error of MessageStream.
func (s *Schema) MessageStream(from io.Reader) (Answer, error) {
	st := &messageStream{schema: s}
	if err := events(from, st.take); err != nil {
		return Answer{}, err
	}
	if !st.answer.Done && !st.failed {
		return Answer{}, errors.New("a stream ends in message_stop or in an error")
	}
	return st.answer, nil
}

func (st *messageStream) take(e event) error {
	if st.answer.Done || st.failed {
		return fmt.Errorf("an event after the end: %s", excerpt(e.data))
	}
	if err := st.schema.CheckMessageEvent(e.name, e.data); err != nil {
		return err
	}
	var m messageEvent
	if err := json.Unmarshal(e.data, &m); err != nil {
		return err
	}
	if m.Type != e.name {
		return fmt.Errorf("event %q is %q", e.name, m.Type)
	}
	if m.Type == "error" {
		failure, err := st.schema.MessagesError(e.data, 0)
		st.failed, st.answer.Failure = true, &failure
		return err
	}
	if err := st.step(m); err != nil {
		return fmt.Errorf("%w: %s", err, excerpt(e.data))
	}
	return nil
}

func (st *messageStream) step(e messageEvent) error {
	if st.begun == (e.Type == "message_start") {
		return fmt.Errorf("%s out of order", e.Type)
	}
	switch e.Type {
	case "message_start":
		return st.start(e.Message)
	case "ping":
		return nil
	case "content_block_start":
		return st.openBlock(e)
	case "content_block_delta":
		return st.add(e)
	case "content_block_stop":
		return st.closeBlock(e)
	case "message_delta":
		return st.finish(e)
	case "message_stop":
		st.answer.Done = true
		if !st.ended {
			return errors.New("message_stop without a stop_reason")
		}
		return nil
	}
	return fmt.Errorf("no event of a message: %q", e.Type)
}

func (st *messageStream) start(m *anthropicMessage) error {
	st.begun = true
	if m == nil {
		return errors.New("message_start without a message")
	}
	if err := m.check(); err != nil {
		return err
	}
	if len(m.Content) > 0 || m.StopReason != nil || m.StopSequence != nil {
		return errors.New("a message that begins has no content and no stop_reason")
	}
	st.answer.ID, st.answer.Model, st.answer.Tokens = m.ID, m.Model, m.Usage.total()
	return nil
}

func (st *messageStream) openBlock(e messageEvent) error {
	if e.Index == nil || e.Block == nil || st.open != nil || st.ended || *e.Index != st.blocks {
		return errors.New("a block out of order")
	}
	b := *e.Block
	if b.Text+b.Thinking+b.Signature != "" || b.Type == "tool_use" && string(b.Input) != "{}" {
		return errors.New("a block that begins has nothing in it")
	}
	st.open, st.input = &b, ""
	st.blocks++
	return nil
}

// deltas are the types of what is added to a block.
var deltas = map[string]string{
	"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use",
}

func (st *messageStream) add(e messageEvent) error {
	if e.Index == nil || e.Delta == nil || st.open == nil || *e.Index != st.blocks-1 {
		return errors.New("a delta of no open block")
	}
	if deltas[e.Delta.Type] != st.open.Type {
		return fmt.Errorf("a %s of a block %s", e.Delta.Type, st.open.Type)
	}
	if st.open.Signature != "" {
		return errors.New("a delta after the signature")
	}
	st.open.Text += e.Delta.Text
	st.open.Thinking += e.Delta.Thinking
	st.open.Signature += e.Delta.Signature
	st.input += e.Delta.PartialJSON
	if st.open.Type == "text" {
		st.answer.Text += e.Delta.Text // of a block that may never stop
	}
	return nil
}

func (st *messageStream) closeBlock(e messageEvent) error {
	if e.Index == nil || st.open == nil || *e.Index != st.blocks-1 {
		return errors.New("the stop of no open block")
	}
	b := *st.open
	st.open = nil
	if b.Type == "text" {
		return nil
	}
	if st.input != "" {
		b.Input = json.RawMessage(st.input)
	}
	return st.answer.addBlock(b)
}

func (st *messageStream) finish(e messageEvent) error {
	if st.open != nil || st.ended || e.Delta == nil || e.Delta.StopReason == nil {
		return errors.New("message_delta within a block, a second time, or without stop_reason")
	}
	if e.Usage == nil || e.Usage.Output == nil {
		return errors.New("message_delta without usage")
	}
	st.ended, st.answer.Finish = true, *e.Delta.StopReason
	if e.Usage.Input != nil {
		st.answer.Tokens = e.Usage.total()
	} else {
		st.answer.Tokens += *e.Usage.Output
	}
	return st.answer.stopped(e.Delta.StopSequence)
}
