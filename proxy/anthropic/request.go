package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/openai/jsonschema"
	"codex-proxy/proxy/openai/media"
	"codex-proxy/proxy/openai/parameter"
)

// MessageRequest is a validated request of POST /v1/messages or POST /v1/messages/count_tokens.
// Source: https://docs.anthropic.com/en/api/messages.
type MessageRequest struct {
	Model    string
	System   []string // the texts of the system prompt
	Messages []MessageParam
	Stream   bool
	// MaxTokens has no effect, except for 0: the answer has no tokens, and nothing runs.
	MaxTokens int64
	Tools     []clienttool.Tool // those that the model may call
	// Single means that the client accepts one call in an answer.
	Single bool
	// Instructions replace settings that codex does not have, and follow the conversation.
	Instructions []string
	Format       jsonschema.Format
	Reasoning    parameter.Reasoning // as it is to run; see parameter.Common
	// Thinking means that the answer has thinking blocks.
	Thinking    bool
	Stop        []string // sequences before which an answer ends
	ServiceTier string   // priority or empty
	Safeguards  []string // types of the checks that the client wants on each call of a tool
	CacheKey    string   // identifies the conversation; empty: not known
	Ignored     []string // parameters accepted without effect, sorted

	effort      string // that the client wants
	effortField string // its name in the request
}

// rawRequest is the request as it is sent.
type rawRequest struct {
	Model         string                         `json:"model"`
	MaxTokens     *jsonbody.Whole                `json:"max_tokens"`
	Messages      jsonbody.List[rawMessage]      `json:"messages"`
	System        systemPrompt                   `json:"system"`
	Stream        bool                           `json:"stream"`
	StopSequences jsonbody.List[string]          `json:"stop_sequences"`
	Temperature   *float64                       `json:"temperature"`
	TopP          *float64                       `json:"top_p"`
	TopK          *float64                       `json:"top_k"`
	Thinking      *rawThinking                   `json:"thinking"`
	OutputConfig  rawOutputConfig                `json:"output_config"`
	OutputFormat  *rawFormat                     `json:"output_format"`
	Tools         jsonbody.List[json.RawMessage] `json:"tools"`
	ToolChoice    *rawToolChoice                 `json:"tool_choice"`
	ServiceTier   string                         `json:"service_tier"`
	Speed         string                         `json:"speed"`
	Safeguards    jsonbody.List[rawSafeguard]    `json:"safeguards"`
	Metadata      struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`

	Others map[string]jsonbody.ValuePrefix `json:",embed"`
}

// DecodeMessage parses and validates the body of POST /v1/messages. Every error is an *openai.Error with status 400
// that names the field at fault.
func DecodeMessage(body []byte) (*MessageRequest, error) {
	return decode(body, func(raw *rawRequest) error {
		switch {
		case raw.MaxTokens == nil:
			return required("max_tokens")
		case *raw.MaxTokens < 0:
			return invalid("max_tokens", "must be at least 0")
		}
		return nil
	})
}

// DecodeCount is DecodeMessage for the body of POST /v1/messages/count_tokens, which needs no max_tokens.
func DecodeCount(body []byte) (*MessageRequest, error) {
	return decode(body, func(*rawRequest) error { return nil })
}

func decode(body []byte, check func(*rawRequest) error) (*MessageRequest, error) {
	var raw rawRequest
	err := jsonbody.Decode(body, &raw)
	if err == nil {
		err = check(&raw)
	}
	var req *MessageRequest
	if err == nil {
		req, err = raw.validate()
	}
	if err != nil {
		return nil, dotted(err)
	}
	return req, nil
}

func (raw *rawRequest) validate() (*MessageRequest, error) {
	req := &MessageRequest{Model: raw.Model, System: raw.System, Stream: raw.Stream, Stop: raw.StopSequences,
		CacheKey: sessionOf(raw.Metadata.UserID)}
	if raw.MaxTokens != nil {
		req.MaxTokens = int64(*raw.MaxTokens)
	}
	for _, apply := range []func(*MessageRequest) error{
		raw.applyOthers, raw.applyScalars, raw.applyStop, raw.applyReasoning, raw.applyFormat, raw.applyMessages,
		raw.applyTools, raw.applySafeguards,
	} {
		if err := apply(req); err != nil {
			return nil, err
		}
	}
	slices.Sort(req.Ignored)
	req.Ignored = slices.Compact(req.Ignored)
	return req, nil
}

// applyOthers also names the parameters without effect that have a field here.
func (raw *rawRequest) applyOthers(req *MessageRequest) (err error) {
	req.Ignored, err = checkParams(raw.Others)
	for _, p := range []struct {
		name string
		set  bool
	}{
		{"max_tokens", raw.MaxTokens != nil}, {"temperature", raw.Temperature != nil}, {"top_p", raw.TopP != nil},
		{"top_k", raw.TopK != nil}, {"metadata", raw.Metadata.UserID != ""},
	} {
		if p.set {
			req.Ignored = append(req.Ignored, p.name)
		}
	}
	return err
}

func (raw *rawRequest) applyScalars(req *MessageRequest) error {
	switch {
	case raw.Model == "":
		return required("model")
	case len(raw.Model) > openai.MaxModelName:
		return invalid("model", fmt.Sprintf("must not be longer than %d bytes", openai.MaxModelName))
	case !slices.Contains([]string{"", "auto", "standard_only"}, raw.ServiceTier):
		return invalid("service_tier", "must be auto or standard_only")
	case !slices.Contains([]string{"", "standard", "fast"}, raw.Speed):
		return invalid("speed", "must be standard or fast")
	case raw.Speed == "fast":
		req.ServiceTier = "priority"
	}
	return nil
}

// Limits on stop_sequences.
const (
	maxStops    = 64
	maxStopSize = 1 << 10 // bytes of one sequence
)

func (raw *rawRequest) applyStop(*MessageRequest) error {
	if len(raw.StopSequences) > maxStops {
		return invalid("stop_sequences", fmt.Sprintf("must not hold more than %d sequences", maxStops))
	}
	for i, sequence := range raw.StopSequences {
		at := fmt.Sprintf("stop_sequences.%d", i)
		switch {
		case strings.TrimSpace(sequence) == "":
			return invalid(at, "each stop sequence must contain non-whitespace")
		case len(sequence) > maxStopSize:
			return invalid(at, fmt.Sprintf("must not be longer than %d bytes", maxStopSize))
		}
	}
	return nil
}

// maxUserID bounds a user_id that identifies a conversation, in bytes: it stays as long as the answer takes.
const maxUserID = 1 << 10

// sessionOf is the user_id if it also names a session, as Claude Code's user_id does; else many conversations have it.
func sessionOf(userID string) string {
	if len(userID) <= maxUserID && strings.Contains(userID, "session") {
		return userID
	}
	return ""
}

// Common implements the common part of a request.
func (req *MessageRequest) Common() parameter.Common {
	return parameter.Common{
		Model: &req.Model, Effort: &req.Reasoning.Effort, Summary: &req.Reasoning.Summary, Choices: 1,
		Stream: req.Stream, Ignored: req.Ignored, Tier: req.ServiceTier, NoReasoning: req.Reasoning.Disabled,
		TierField: "speed", SoftEffort: req.effort, EffortField: req.effortField, NoReasoningField: "thinking",
		HistoryField: "messages",
	}
}

// Images are the images in the messages.
func (req *MessageRequest) Images() (list []media.PlacedImage) {
	latest := len(req.Messages) - 1
	for latest > 0 && req.Messages[latest].Role == roleSystem {
		latest--
	}
	for i, m := range req.Messages {
		for _, b := range m.Blocks {
			if b.Image != nil {
				list = append(list, media.PlacedImage{At: b.At, Image: b.Image, New: i == latest})
			}
			for _, p := range b.Parts {
				if p.Image != nil {
					list = append(list, media.PlacedImage{At: p.At, Image: p.Image})
				}
			}
		}
	}
	return list
}
