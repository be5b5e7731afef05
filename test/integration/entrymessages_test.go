package integration

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
func (e *entry) request(ctx context.Context) *http.Request {
	if !e.messages {
		return chatRequest(ctx, e.stream, e.prompt())
	}
	body, err := contract.Messages.Body(contract.Question{Model: model, Prompt: e.prompt(), Stream: e.stream})
	if err != nil {
		panic(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+contract.Messages.Path,
		strings.NewReader(string(body)))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", anthropicVersion)
	return req
}

// takeMessage adds a message, an event of one, or an error.
func (e *entry) takeMessage(data []byte) error {
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
		e.commented = true
	case "message_stop":
		e.whole = true
	case "error":
		if e.code != "" {
			return errors.New("a second error")
		}
		e.code, e.message = part.Error.Type, part.Error.Message
		e.retryable = e.code == "overloaded_error"
	}
	text := part.Delta.Text
	for _, block := range part.Content {
		text += block.Text
	}
	if text != "" {
		e.ledger.received(e)
		e.text += text
	}
	e.finish += part.Stop + part.Delta.Stop
	return nil
}

// ofAPI is the word of the entry's API for one of chat.
func (e *entry) ofAPI(chat, messages string) string {
	if e.messages {
		return messages
	}
	return chat
}
