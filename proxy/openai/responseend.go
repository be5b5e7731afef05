package openai

import (
	"bytes"
	"fmt"
)

// EndResponse ends a response for which no ResponseBuilder is left. object is the response as it was, sequence the
// number of its events so far; err is the reason of the failure, nil if a client has cancelled it. It returns the
// response, and the events that are missing.
func EndResponse(object []byte, sequence int, err *Error) (Response, []ResponseEvent, error) {
	b := ResponseBuilder{sequence: sequence, begun: true}
	if unmarshal(object, &b.response) != nil {
		return Response{}, nil, fmt.Errorf("cannot read a response of %d bytes", len(object))
	}
	if err == nil {
		return b.ended(b.Cancel(nil))
	}
	return b.ended(b.Fail(err, nil, false))
}

func (b *ResponseBuilder) ended(events []ResponseEvent) (Response, []ResponseEvent, error) {
	return b.Response(), events, nil
}

// EncodeResponseEvents returns events as server-sent events.
func EncodeResponseEvents(events ...ResponseEvent) ([]byte, error) {
	var all bytes.Buffer
	for _, e := range events {
		if err := WriteResponseEvent(&all, e); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// StreamError is the event of an error in a stream of so many events, which ends the stream and not its response.
func StreamError(err *Error, sequence int) ResponseEvent {
	b := ResponseBuilder{sequence: sequence}
	return b.errorEvent(err, err.Code)
}
