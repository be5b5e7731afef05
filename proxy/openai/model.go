package openai

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

// Models lists ids in the given order, owned by owner. Created is zero: the workers do not report it.
func Models(ids []string, owner string) ModelList {
	list := ModelList{Object: "list", Data: make([]Model, 0, len(ids))}
	for _, id := range ids {
		list.Data = append(list.Data, Model{ID: id, Object: "model", OwnedBy: owner})
	}
	return list
}
