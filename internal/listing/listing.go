// Package listing shows a list of things with a changing state: once or after every change, to people or as JSON.
package listing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"codex-proxy/internal/cli"
)

// pause is the time between two looks of a watch. Listed things may change by themselves, so that no event covers all
// changes.
const pause = time.Second

// clearScreen moves to the top left and erases the screen (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

// Listing is one command line that shows lists of the type T.
type Listing[T any] struct {
	Stdout  io.Writer
	JSON    bool // one JSON object a list
	Watch   bool // go on with every change
	Collect func(context.Context) (T, error)
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

// watch shows every change; a terminal always has the present page.
func (l *Listing[T]) watch(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	redraw := cli.IsTerminal(l.Stdout) && !l.JSON
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var shown []byte
	for {
		list, err := l.Collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if shown, err = l.show(list, shown, redraw); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// show shows a list unless it is the one that was shown, and returns it as JSON.
func (l *Listing[T]) show(list T, shown []byte, redraw bool) ([]byte, error) {
	now, err := json.Marshal(list)
	if err != nil || !redraw && bytes.Equal(now, shown) {
		return now, err
	}
	page, err := l.page(list)
	if err != nil {
		return nil, err
	}
	switch {
	case redraw:
		page = append([]byte(clearScreen), page...)
	case shown != nil && !l.JSON:
		fmt.Fprintln(l.Stdout)
	}
	_, err = l.Stdout.Write(page)
	return now, err
}
