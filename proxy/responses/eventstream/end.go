package eventstream

import (
	"bytes"
	"fmt"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
	"codex-proxy/proxy/responses/wire"
)

// End ends a response for which no Builder is left. object is the response as it was, sequence the
// number of its events so far; err is the reason of the failure, nil if a client has cancelled it. It returns the
// response, and the events that are missing.
func End(object []byte, sequence int, err *openai.Error) (wire.Response, []Event, error) {
	b := Builder{output: output{sequence: sequence}, begun: true}
	if jsonbody.Unmarshal(object, &b.response) != nil {
		return wire.Response{}, nil, fmt.Errorf("cannot read a response of %d bytes", len(object))
	}
	if err == nil {
		return b.ended(b.Cancel(nil))
	}
	return b.ended(b.Fail(err, nil, false))
}

func (b *Builder) ended(events []Event) (wire.Response, []Event, error) {
	return b.Response(), events, nil
}

// Encode returns events as server-sent events.
func Encode(events ...Event) ([]byte, error) {
	var all bytes.Buffer
	for _, e := range events {
		if err := Write(&all, e); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// StreamError is the event of an error in a stream of so many events, which ends the stream and not its response.
func StreamError(err *openai.Error, sequence int) Event {
	b := Builder{output: output{sequence: sequence}}
	return b.errorEvent(err, err.Code)
}
