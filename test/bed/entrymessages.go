package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"codex-proxy/test/contract"
)

// request asks for the answer by the API of the entry.
func (e *Entry) request(ctx context.Context) *http.Request {
	if !e.Messages {
		return ChatRequest(ctx, e.Stream, e.Prompt())
	}
	body, err := contract.Messages.Body(contract.Question{Model: Model, Prompt: e.Prompt(), Stream: e.Stream})
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, Base+contract.Messages.Path,
		strings.NewReader(string(body)))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", AnthropicVersion)
	return req
}

// takeMessage adds a message, an event of one, or an error.
func (e *Entry) takeMessage(data []byte) error {
	var part struct {
		Type    string
		Content []struct{ Text string }
		Stop    string `json:"stop_reason"`
		Delta   struct {
			Text string
			Stop string `json:"stop_reason"`
		}
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal(data, &part); err != nil {
		return fmt.Errorf("%q: %w", data, err)
	}
	switch part.Type {
	case "ping":
		e.Commented = true
	case "message_stop":
		e.Whole = true
	case "error":
		if e.Code != "" {
			return errors.New("a second error")
		}
		e.Code, e.message = part.Error.Type, part.Error.Message
		e.retryable = e.Code == "overloaded_error"
	}
	text := part.Delta.Text
	for _, block := range part.Content {
		text += block.Text
	}
	if text != "" {
		e.ledger.received(e)
		e.Text += text
	}
	e.Finish += part.Stop + part.Delta.Stop
	return nil
}

// OfAPI is the word of the entry's API for one of chat.
func (e *Entry) OfAPI(chat, messages string) string {
	if e.Messages {
		return messages
	}
	return chat
}
