// Package listing shows a list of things with a changing state: once or after every change, to people or as JSON.
package listing

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"
)

// clearScreen moves to the top left and erases the screen (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

// Listing is one command line that shows lists of the type T.
type Listing[T any] struct {
	Stdout  io.Writer
	JSON    bool // one JSON object a list
	Watch   bool // go on with every change
	Collect func(context.Context) (T, error)
	// Changes calls changed now and after each change of the list until ctx ends, and returns before only if it cannot
	// go on. A watch looks once a second while it is nil or does not run.
	Changes func(ctx context.Context, changed func()) error
	// Write writes a list for people. Its times are in the zone of now.
	Write func(p Paper, w io.Writer, list T, now time.Time) error
}

// Run shows the list. A watch ends with SIGINT, SIGTERM or ctx, without an error.
func (l *Listing[T]) Run(ctx context.Context) error {
	if l.Watch {
		return l.watch(ctx)
	}
	list, err := l.Collect(ctx)
	if err != nil {
		return err
	}
	page, err := l.page(list)
	if err == nil {
		_, err = l.Stdout.Write(page)
	}
	return err
}

// page is the list as this command line shows it.
func (l *Listing[T]) page(list T) ([]byte, error) {
	if l.JSON {
		line, err := json.Marshal(list)
		return append(line, '\n'), err
	}
	var page bytes.Buffer
	err := l.Write(PaperOf(l.Stdout), &page, list, time.Now())
	return page.Bytes(), err
}
