package openai

import (
	"encoding/json"
	"fmt"
	"io"
)

// WriteEvent writes v as one data-only server-sent event.
func WriteEvent(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot encode an event: %w", err)
	}
	// One Write a frame: a frame is never split by a flush.
	_, err = w.Write(append(append([]byte("data: "), data...), "\n\n"...))
	return err
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
