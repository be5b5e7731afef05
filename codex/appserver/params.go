package appserver

import (
	"encoding/json"
	"strconv"

	"codex-proxy/codex/history"
)

// overhead is about how many bytes a request has besides its texts.
const overhead = 128

type threadStartParams struct {
	Ephemeral             bool    `json:"ephemeral"`
	Model                 string  `json:"model,omitempty"`
	BaseInstructions      *string `json:"baseInstructions,omitempty"`
	ExperimentalRawEvents bool    `json:"experimentalRawEvents"`
	ServiceTier           string  `json:"serviceTier,omitempty"`

	Config       threadConfig  `json:"config,omitempty"`
	DynamicTools []dynamicTool `json:"dynamicTools,omitempty"`
}

// threadConfig are keys of config.toml, for one thread.
type threadConfig map[string]string

const modelVerbosity = "model_verbosity"

func (p threadStartParams) AppendJSON(b []byte) []byte {
	b = strconv.AppendBool(append(b, `{"ephemeral":`...), p.Ephemeral)
	b = strconv.AppendBool(append(b, `,"experimentalRawEvents":`...), p.ExperimentalRawEvents)
	b = appendOptional(b, "model", p.Model)
	b = appendOptional(b, "serviceTier", p.ServiceTier)
	if p.BaseInstructions != nil {
		b = history.AppendString(append(b, `,"baseInstructions":`...), *p.BaseInstructions, "")
	}
	if v := p.Config[modelVerbosity]; v != "" {
		b = history.AppendString(history.AppendString(append(b, `,"config":{`...), modelVerbosity, ":"), v, "}")
	}
	for i, t := range p.DynamicTools {
		b = t.append(append(b, separator(i, `,"dynamicTools":[`)...))
	}
	if len(p.DynamicTools) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func (p threadStartParams) Size() (n int) {
	n = 2 * overhead
	if p.BaseInstructions != nil {
		n += len(*p.BaseInstructions) + len(*p.BaseInstructions)/8
	}
	for _, t := range p.DynamicTools {
		n += overhead + len(t.Description) + len(t.InputSchema)
	}
	return n
}

type threadStartResponse struct {
	Thread identified `json:"thread"`
}

type injectItemsParams struct {
	ThreadID string         `json:"threadId"`
	Items    []history.Item `json:"items"`
}

// AppendJSON copies the items, which are JSON and the whole history.
func (p injectItemsParams) AppendJSON(b []byte) []byte {
	b = history.AppendString(append(b, `{"threadId":`...), p.ThreadID, `,"items":[`)
	for i, item := range p.Items {
		b = append(append(b, separator(i, "")...), item...)
	}
	return append(b, "]}"...)
}

// appendOptional appends a member after others, if it has a value.
func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return history.AppendString(history.AppendString(append(b, ','), name, ":"), value, "")
}

// separator precedes the element at i of a list.
func separator(i int, first string) string {
	if i == 0 {
		return first
	}
	return ","
}

func (p injectItemsParams) Size() (n int) {
	for _, item := range p.Items {
		n += len(item) + 1
	}
	return n + overhead
}

type turnStartParams struct {
	ThreadID     string          `json:"threadId"`
	Input        []struct{}      `json:"input"`
	Effort       string          `json:"effort,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

func (p turnStartParams) AppendJSON(b []byte) []byte {
	b = history.AppendString(append(b, `{"threadId":`...), p.ThreadID, `,"input":[]`)
	b = appendOptional(b, "effort", p.Effort)
	b = appendOptional(b, "summary", p.Summary)
	if len(p.OutputSchema) > 0 {
		b = append(append(b, `,"outputSchema":`...), p.OutputSchema...)
	}
	return append(b, '}')
}

func (p turnStartParams) Size() int { return overhead + len(p.OutputSchema) }

type turnStartResponse struct {
	Turn identified `json:"turn"`
}

type turnInterruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

type unsubscribeParams struct {
	ThreadID string `json:"threadId"`
}

func (p unsubscribeParams) AppendJSON(b []byte) []byte {
	return history.AppendString(append(b, `{"threadId":`...), p.ThreadID, "}")
}

func (p unsubscribeParams) Size() int { return overhead }
