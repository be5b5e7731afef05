package responses

import (
	"fmt"

	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// item is an item of a conversation: decoded, from a request, or as JSON, from the store.
// Most items are never needed in the other form.
type item struct {
	stored.Item
	decoded *openai.Item // nil: it is JSON
}

func fromStore(items []stored.Item) []item {
	list := make([]item, 0, len(items))
	for _, i := range items {
		list = append(list, item{Item: i})
	}
	return list
}

// size is about how many bytes the item has.
func (i item) size() int {
	if i.decoded != nil {
		return i.decoded.Size()
	}
	return len(i.JSON)
}

func size(conversation []item) (bytes int64) {
	for _, i := range conversation {
		bytes += int64(i.size())
	}
	return bytes
}

func (i item) decode() (openai.Item, error) {
	if i.decoded != nil {
		return *i.decoded, nil
	}
	decoded, err := openai.DecodeItem(i.JSON)
	if err != nil {
		return decoded, fmt.Errorf("cannot read a stored item: %w", err)
	}
	return decoded, nil
}

// toStore returns a conversation as JSON.
func toStore(conversation []item) ([]stored.Item, error) {
	list := make([]stored.Item, 0, len(conversation))
	for _, i := range conversation {
		if i.decoded != nil {
			var err error
			if i.JSON, err = i.decoded.Encode(); err != nil {
				return nil, fmt.Errorf("cannot encode an item: %w", err)
			}
		}
		list = append(list, i.Item)
	}
	return list, nil
}

// outputItems returns the output of a response that a worker made.
func outputItems(output []openai.OutputItem, worker string) []item {
	list := make([]item, 0, len(output))
	for _, o := range output {
		data, err := openai.Encode(o)
		if err != nil { // strings always encode
			panic(err)
		}
		list = append(list, item{Item: stored.Item{ID: o.ID, JSON: data, Worker: worker}})
	}
	return list
}

// weight is the memory that it takes to continue a conversation that has been read,
// besides its bytes.
func weight(conversation []item) (bytes int64) {
	for _, i := range conversation {
		bytes += limits.PerItem
		if i.decoded == nil {
			bytes += limits.PerElement * openai.Weigh(i.JSON).Elements
		}
	}
	return bytes
}
