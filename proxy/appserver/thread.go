package appserver

import "encoding/json"

type threadStartParams struct {
	Ephemeral             bool    `json:"ephemeral"`
	Model                 string  `json:"model,omitempty"`
	Cwd                   string  `json:"cwd,omitempty"`
	BaseInstructions      *string `json:"baseInstructions,omitempty"`
	ExperimentalRawEvents bool    `json:"experimentalRawEvents"`
	ServiceTier           string  `json:"serviceTier,omitempty"`

	Config       map[string]string `json:"config,omitempty"` // keys of config.toml, for this thread
	DynamicTools []dynamicTool     `json:"dynamicTools,omitempty"`
}

type threadStartResponse struct {
	Thread identified `json:"thread"`
}

type injectItemsParams struct {
	ThreadID string `json:"threadId"`
	Items    []Item `json:"items"`
}

// append is the parameters as JSON: the items are JSON, and the whole history.
func (p injectItemsParams) append(b []byte) []byte {
	b = quoted(append(b, `{"threadId":`...), p.ThreadID, `,"items":[`)
	for i, item := range p.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, "]}"...)
}

func (p injectItemsParams) size() (n int) {
	for _, item := range p.Items {
		n += len(item) + 1
	}
	return n + spare
}

type turnStartParams struct {
	ThreadID     string          `json:"threadId"`
	Input        []struct{}      `json:"input"`
	Effort       string          `json:"effort,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

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
