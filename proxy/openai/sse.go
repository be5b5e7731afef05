package openai

import (
	"fmt"
	"io"
	"slices"
)

// WriteEvent writes v as one data-only server-sent event.
func WriteEvent(w io.Writer, v any) error {
	return WriteNamedEvent(w, "", v)
}

// longEvent is the size from which an event is not copied into one Write.
const longEvent = 64 << 10

// WriteNamedEvent writes v as a server-sent event of that name; empty: without a name.
func WriteNamedEvent(w io.Writer, name string, v any) error {
	head := ""
	if name != "" {
		head = "event: " + name + "\n"
	}
	data, err := Encode(v)
	if err != nil {
		return fmt.Errorf("cannot encode an event: %w", err)
	}
	if len(data) <= longEvent { // one Write, which no flush splits
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

// WriteKeepalive writes a comment, which clients ignore.
func WriteKeepalive(w io.Writer) error {
	_, err := io.WriteString(w, ": keepalive\n\n")
	return err
}
