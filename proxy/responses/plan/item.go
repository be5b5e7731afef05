package plan

import (
	"fmt"

	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
	"codex-proxy/proxy/stored"
)

// Item is an item of a conversation: decoded, from a request, or as JSON, from the store.
// Most items are never needed in the other form.
type Item struct {
	stored.Item
	Decoded *wire.Item // nil: it is JSON
}

// FromStore returns stored items as a conversation.
func FromStore(items []stored.Item) []Item {
	list := make([]Item, 0, len(items))
	for _, i := range items {
		list = append(list, Item{Item: i})
	}
	return list
}

// Size is about how many bytes the item has.
func (i Item) Size() int {
	if i.Decoded != nil {
		return i.Decoded.Size()
	}
	return len(i.JSON)
}

// Size is about how many bytes the items of a conversation have.
func Size(conversation []Item) (bytes int64) {
	for _, i := range conversation {
		bytes += int64(i.Size())
	}
	return bytes
}

func (i Item) decode() (wire.Item, error) {
	if i.Decoded != nil {
		return *i.Decoded, nil
	}
	decoded, err := wire.DecodeItem(i.JSON)
	if err != nil {
		return decoded, fmt.Errorf("cannot read a stored item: %w", err)
	}
	return decoded, nil
}

// ToStore returns a conversation as JSON.
func ToStore(conversation []Item) ([]stored.Item, error) {
	list := make([]stored.Item, 0, len(conversation))
	for _, i := range conversation {
		if i.Decoded != nil {
			var err error
			if i.JSON, err = i.Decoded.Encode(); err != nil {
				return nil, fmt.Errorf("cannot encode an item: %w", err)
			}
		}
		list = append(list, i.Item)
	}
	return list, nil
}

// OutputItems returns the output of a response that a worker made.
func OutputItems(output []wire.OutputItem, worker string) []Item {
	list := make([]Item, 0, len(output))
	for _, o := range output {
		data, err := openai.Encode(o)
		if err != nil { // strings always encode
			panic(err)
		}
		list = append(list, Item{Item: stored.Item{ID: o.ID, JSON: data, Worker: worker}})
	}
	return list
}

// Weight is the memory that it takes to continue a conversation that has been read,
// besides its bytes.
func Weight(conversation []Item) (bytes int64) {
	for _, i := range conversation {
		bytes += limits.PerItem
		if i.Decoded == nil {
			bytes += limits.PerElement * jsonbody.Weigh(i.JSON).Elements
		}
	}
	return bytes
}
