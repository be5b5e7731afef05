package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// TextWriter writes the chunks of one choice that differ only in their text. One goroutine
// may use it.
type TextWriter struct {
	head, tail []byte
	event      []byte // the last one, to reuse its memory
}

// NewTextWriter makes the writer from a chunk of strings and numbers with an empty text, which follows name.
func NewTextWriter(chunk any, name string) *TextWriter {
	data, err := json.Marshal(chunk)
	if err != nil { // it holds strings and numbers
		panic(err)
	}
	head, tail, _ := bytes.Cut(data, []byte(name+`""`))
	return &TextWriter{head: slices.Concat([]byte("data: "), head, []byte(name)), tail: append(tail, "\n\n"...)}
}

// WriteEvent writes the chunk with the text, like the function WriteEvent; a long text in several.
func (t *TextWriter) WriteEvent(w io.Writer, text string) error {
	for piece := range Pieces(text) {
		// its error only reports bytes that are not UTF-8, which it has replaced
		t.event, _ = jsontext.AppendQuote(append(t.event[:0], t.head...), piece)
		t.event = append(t.event, t.tail...)
		if _, err := w.Write(t.event); err != nil {
			return err
		}
	}
	return nil
}
