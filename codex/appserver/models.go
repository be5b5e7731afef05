package appserver

import (
	"context"
	"fmt"
)

// maxModelPages bounds a list with a cursor that never ends.
const maxModelPages = 100

// Model is a model that the worker can run.
type Model struct {
	// ID is the model's name in requests.
	ID string `json:"id"`
	// Hidden models are not meant for a picker but run when requested by name.
	Hidden bool `json:"hidden"`
	// Tiers are the service tiers that codex requests for this model, besides flex, which it requests for any. It drops
	// the others. Measured with 0.169.
	Tiers []ServiceTier `json:"serviceTiers"`
	// Efforts are the reasoning efforts of the model; none if codex does not know them.
	Efforts []Effort `json:"supportedReasoningEfforts"`
}

// ServiceTier is a tier that a model has.
type ServiceTier struct {
	ID string `json:"id"` // as in the Responses API
}

// Effort is a reasoning effort that a model has.
type Effort struct {
	Name string `json:"reasoningEffort"`
}

type modelListParams struct {
	Cursor        string `json:"cursor,omitempty"`
	IncludeHidden bool   `json:"includeHidden"`
}

type modelListResponse struct {
	Data       []Model `json:"data"`
	NextCursor string  `json:"nextCursor"`
}

// Models lists all models, the hidden ones too (see Model.Hidden), in codex's own order. The list is from the
// worker's catalogue and does not depend on the login, so it proves no working account.
func (c *Conn) Models(ctx context.Context) ([]Model, error) {
	var models []Model
	params := modelListParams{IncludeHidden: true}
	for range maxModelPages {
		var r modelListResponse
		if err := c.Call(ctx, "model/list", params, &r); err != nil {
			return nil, fmt.Errorf("cannot list models: %w", err)
		}
		models = append(models, r.Data...)
		if r.NextCursor == "" {
			return models, nil
		}
		params.Cursor = r.NextCursor
	}
	return nil, fmt.Errorf("cannot list models: more than %d pages", maxModelPages)
}
