package rpc

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// request, notification and response are the three shapes that are sent (JSON-RPC 2.0 without "jsonrpc").
type request struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
	Trace  *Trace `json:"trace,omitempty"`
}

type notification struct {
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
}

type response struct {
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// Params are parameters that encode themselves, because they are sent with every turn or hold a whole history.
type Params interface {
	// AppendJSON appends the parameters to b.
	AppendJSON(b []byte) []byte
	// Size is about how many bytes AppendJSON appends.
	Size() int
}

// headSize is about how many bytes a request has besides its parameters.
const headSize = 128

// encodeRequest encodes a request. Parameters that are Params or json.RawMessage are not copied a second time.
func encodeRequest(id int64, method string, params any, trace *Trace) (b []byte, err error) {
	switch params := params.(type) {
	case Params:
		b = params.AppendJSON(requestHead(params.Size(), id, method))
	case json.RawMessage:
		b = append(requestHead(len(params)+headSize, id, method), params...)
	default:
		return encode(method, request{ID: id, Method: method, Params: params, Trace: trace})
	}
	if trace != nil {
		member, err := encode(method, trace)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"trace":`...), member...)
	}
	return append(b, '}'), nil
}

// requestHead is a request up to its parameters, in a buffer of the given capacity.
func requestHead(capacity int, id int64, method string) []byte {
	b := append(make([]byte, 0, capacity), `{"id":`...)
	b, _ = jsontext.AppendQuote(append(strconv.AppendInt(b, id, 10), `,"method":`...), method) // method is valid UTF-8
	return append(b, `,"params":`...)
}

func encode(method string, message any) ([]byte, error) {
	b, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", method, err)
	}
	return b, nil
}
