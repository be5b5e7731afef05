package tokens

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"codex-proxy/codex/history"
	"codex-proxy/proxy/openai/imagecost"
)

// item is an item of a conversation, as package history makes it or as a response has it.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`
}

type part struct {
	Text  string `json:"text"`
	Image string `json:"image_url"` // a data: URL
}

// item adds an item.
func (s *sum) item(ctx context.Context, raw history.Item) error {
	var i item
	if err := jsonv2.Unmarshal(raw, &i); err != nil {
		return err
	}
	switch i.Type {
	case "function_call": // a message of the assistant to a function
		s.message(ctx, "assistant", " to=functions.", i.Name, i.Arguments)
		return nil
	case "function_call_output":
		s.message(ctx, "tool")
		return s.content(ctx, i.Output)
	case "reasoning":
		s.tokens += ofReasoning(i.Encrypted)
		return nil
	default:
		s.message(ctx, i.Role)
		return s.content(ctx, i.Content)
	}
}

// content adds text, or a list of texts and images.
func (s *sum) content(ctx context.Context, raw json.RawMessage) error {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		var text string
		if err := jsonv2.Unmarshal(raw, &text); err != nil {
			return err
		}
		s.text(ctx, text)
		return nil
	}
	var parts []part
	if err := jsonv2.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		s.text(ctx, p.Text)
		if p.Image != "" {
			s.tokens += ofImage(p.Image)
		}
	}
	return nil
}

// ofReasoning is about how many tokens encrypted reasoning has. Codex estimates it in the same way: base64 of about 650
// bytes more than the text, of which four are a token.
func ofReasoning(encrypted string) int64 {
	return max(0, int64(len(encrypted))*3/4-650) / 4
}

// ofImage is how many tokens an image has.
func ofImage(url string) int64 {
	_, data, _ := strings.Cut(url, ";base64,")
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return 0
	}
	h, ok := imagecost.ReadHeader(raw)
	if !ok {
		return 0
	}
	return h.Patches()
}
