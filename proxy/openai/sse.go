package openai

import (
	"fmt"
	"io"
	"slices"
)

// WriteEvent writes v as one data-only server-sent event.
func WriteEvent(w io.Writer, v any) error {
	return writeEvent(w, "", v)
}

// longEvent is an event that is not copied to be written at once.
const longEvent = 64 << 10

// writeEvent writes v as an event, behind head.
func writeEvent(w io.Writer, head string, v any) error {
	data, err := Encode(v)
	if err != nil {
		return fmt.Errorf("cannot encode an event: %w", err)
	}
	if len(data) <= longEvent { // one Write a frame, which no flush splits then
		_, err = w.Write(slices.Concat([]byte(head), []byte("data: "), data, []byte("\n\n")))
		return err
	}
	for _, part := range [][]byte{[]byte(head + "data: "), data, []byte("\n\n")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// WriteDone writes the end marker of a stream that finished.
func WriteDone(w io.Writer) error {
	_, err := io.WriteString(w, "data: [DONE]\n\n")
	return err
}

// WriteKeepalive writes a comment, which clients skip.
func WriteKeepalive(w io.Writer) error {
	_, err := io.WriteString(w, ": keepalive\n\n")
	return err
}
