package proxy

import (
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/stored"
)

// said is an item of a conversation: as a request has brought it, or as JSON, which
// is what is stored. Most are never needed in the other form.
type said struct {
	stored.Item
	brought *openai.Item // nil: it is JSON
}

func asStored(items []stored.Item) []said {
	list := make([]said, 0, len(items))
	for _, item := range items {
		list = append(list, said{Item: item})
	}
	return list
}

// size is how many bytes it is, about.
func (i said) size() int {
	if i.brought != nil {
		return i.brought.Size()
	}
	return len(i.JSON)
}

func size(conversation []said) (bytes int64) {
	for _, item := range conversation {
		bytes += int64(item.size())
	}
	return bytes
}

func (i said) read() (openai.Item, error) {
	if i.brought != nil {
		return *i.brought, nil
	}
	item, err := openai.DecodeItem(i.JSON)
	if err != nil {
		return item, fmt.Errorf("cannot read a stored item: %w", err)
	}
	return item, nil
}

// toStore is all of it as JSON.
func toStore(conversation []said) ([]stored.Item, error) {
	list := make([]stored.Item, 0, len(conversation))
	for _, item := range conversation {
		if item.brought != nil {
			var err error
			if item.JSON, err = item.brought.Encode(); err != nil {
				return nil, fmt.Errorf("cannot encode an item: %w", err)
			}
		}
		list = append(list, item.Item)
	}
	return list, nil
}

// made is the output of a response.
func made(output []openai.OutputItem, worker string) []said {
	list := make([]said, 0, len(output))
	for _, item := range output {
		data, err := openai.Encode(item)
		if err != nil { // it was made from strings
			panic(err)
		}
		list = append(list, said{Item: stored.Item{ID: item.ID, JSON: data, Worker: worker}})
	}
	return list
}
