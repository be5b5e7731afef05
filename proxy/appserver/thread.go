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
	Thread struct {
		ID string `json:"id"`
	} `json:"thread"`
}

type injectItemsParams struct {
	ThreadID string `json:"threadId"`
	Items    []Item `json:"items"`
}

type turnStartParams struct {
	ThreadID     string          `json:"threadId"`
	Input        []struct{}      `json:"input"`
	Effort       string          `json:"effort,omitempty"`
	Summary      string          `json:"summary,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

type turnStartResponse struct {
	Turn struct {
		ID string `json:"id"`
	} `json:"turn"`
}

type turnInterruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

type unsubscribeParams struct {
	ThreadID string `json:"threadId"`
}
