package limits

import (
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// The memory that a request takes at most, in bytes, while it is read, decoded and sent
// to a worker. TestWorstBody finds the bodies that take most.
const (
	PerByte    = 3    // of the body: as received, decoded, and as sent to the worker
	PerElement = 100  // a name or value in it
	PerItem    = 1536 // a message, an item of the input or a tool
)

// Expected is the charge for a body of so many bytes before it is read: most bodies take
// less, and do not have to wait for more after they were read.
func Expected(size int64) int64 { return PerByte*size + size/2 + 8<<10 }

// Weigh returns the charge for a body, and the other results of its first pass. The error is an *openai.Error for a
// body that must not be decoded.
func Weigh(body []byte) (bytes int64, w jsonbody.Weight, err error) {
	w = jsonbody.Weigh(body)
	if w.Elements > jsonbody.MaxElements {
		err = openai.TooLarge("",
			fmt.Sprintf("the body holds %d names and values, more than the limit of %d; send shorter lists",
				w.Elements, jsonbody.MaxElements))
	}
	return PerByte*(int64(len(body))+w.Growth) + PerElement*w.Elements + PerItem*w.Items, w, err
}
