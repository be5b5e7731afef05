package openai

// MaxModelName bounds the length of a model's name, which is in every log line.
const MaxModelName = 256

// Model is one entry of GET /v1/models.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // model
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string  `json:"object"` // list
	Data   []Model `json:"data"`
}

// modelCreated is the created of every model, the day of codex's first release (16 April 2025), because codex reports
// no dates of models.
const modelCreated = 1744761600

// Models lists ids in the given order, owned by owner.
func Models(ids []string, owner string) ModelList {
	list := ModelList{Object: "list", Data: make([]Model, 0, len(ids))}
	for _, id := range ids {
		list.Data = append(list.Data, Model{ID: id, Object: "model", Created: modelCreated, OwnedBy: owner})
	}
	return list
}
