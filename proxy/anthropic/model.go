package anthropic

// Model is one entry of GET /v1/models. Its other fields are facts of Anthropic's models,
// which have null where they are not known.
// Source: https://docs.anthropic.com/en/api/models-list.
type Model struct {
	Type           string  `json:"type"` // model
	ID             string  `json:"id"`
	DisplayName    string  `json:"display_name"`
	CreatedAt      string  `json:"created_at"`
	Lifecycle      string  `json:"lifecycle"` // active
	Line           *string `json:"line"`
	Capabilities   *string `json:"capabilities"`
	MaxInputTokens *int64  `json:"max_input_tokens"`
	MaxTokens      *int64  `json:"max_tokens"`
	DeprecatedAt   *string `json:"deprecated_at"`
	RetiresAt      *string `json:"retires_at"`
}

// ModelList is the answer of GET /v1/models: one page.
type ModelList struct {
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"` // in the direction of the pages
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// LifecycleActive is the lifecycle of every model.
const LifecycleActive = "active"

// modelCreated is the creation of every model, the day of codex's first release, because
// codex reports no dates of models.
const modelCreated = "2025-04-16T00:00:00Z"

// ModelOf is the model with that id.
func ModelOf(id string) Model {
	return Model{Type: "model", ID: id, DisplayName: id, CreatedAt: modelCreated, Lifecycle: LifecycleActive}
}

// Models lists ids in the given order. more reports whether there are further pages.
func Models(ids []string, more bool) ModelList {
	list := ModelList{Data: make([]Model, 0, len(ids)), HasMore: more}
	for _, id := range ids {
		list.Data = append(list.Data, ModelOf(id))
	}
	if len(ids) > 0 {
		list.FirstID, list.LastID = &ids[0], &ids[len(ids)-1]
	}
	return list
}
