// Package verbs carries out the orders of a page: a few fixed verbs, each with checked words. They run in the process
// that has the rights.
package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"codex-proxy/console/pipe"
	"codex-proxy/internal/lazyregexp"
)

// Words are the words of an order, by their names.
type Words = map[string]string

// Send passes on one value of a stream.
type Send func(any) error

// Verb is one order.
type Verb struct {
	Changes bool            // it changes something, which --read-only refuses
	Words   map[string]Form // all are optional unless Needs has their name
	Needs   []string
	// Run carries the order out. It calls the function with each value of a stream.
	Run func(context.Context, Words, Send) (any, error)
}

// Form is the form of a word.
type Form struct {
	fits func(string) bool
	must string // for the error
}

// Match is the form of words that a pattern matches.
func Match(pattern string) Form {
	whole := lazyregexp.New(`^(?:` + pattern + `)$`)
	return Form{whole.MatchString, "match " + whole.String()}
}

// Name is the form of the names of workers, accounts, remotes and new keys.
var Name = Match(`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`)

// maxText bounds a text for a model, in bytes.
const maxText = 6 << 10

// Text is the form of a text for a model.
var Text = Form{func(text string) bool {
	return strings.TrimSpace(text) != "" && len(text) <= maxText && utf8.ValidString(text) &&
		!strings.ContainsRune(text, 0)
}, fmt.Sprintf("be a text of up to %d bytes", maxText)}

// OneAtATime is a Run of which a further order waits for its turn.
func OneAtATime(run func(context.Context) (any, error)) func(context.Context, Words, Send) (any, error) {
	var one sync.Mutex
	return func(ctx context.Context, _ Words, _ Send) (any, error) {
		one.Lock()
		defer one.Unlock()
		if err := ctx.Err(); err != nil { // the page has gone
			return nil, err
		}
		return run(ctx)
	}
}

// Table carries orders out.
type Table struct {
	verbs   map[string]Verb
	changes error // the refusal of orders that change something; nil: they are carried out
}

// ErrReadOnly is the refusal of a console that only shows.
var ErrReadOnly = errors.New("this console only shows: it was started with --read-only")

// New returns a table. With readOnly it refuses orders that change something.
func New(readOnly bool, verbs map[string]Verb) *Table {
	if readOnly {
		return Restricted(ErrReadOnly, verbs)
	}
	return Restricted(nil, verbs)
}

// Restricted returns a table that refuses orders that change something with that error, unless it is nil.
func Restricted(changes error, verbs map[string]Verb) *Table { return &Table{verbs, changes} }

// Names are the names of all verbs.
func (t *Table) Names() []string { return slices.Sorted(maps.Keys(t.verbs)) }

// Handle carries one order out, if it is one of the table with words that fit.
func (t *Table) Handle(ctx context.Context, o pipe.Order, send func(json.RawMessage) error) (json.RawMessage, error) {
	v, known := t.verbs[o.Verb]
	if !known {
		return nil, fmt.Errorf("there is no order %q; there are %s", o.Verb, strings.Join(t.Names(), ", "))
	}
	if err := v.check(o.Words); err != nil {
		return nil, err
	}
	if v.Changes && t.changes != nil {
		return nil, t.changes
	}
	value, err := v.Run(ctx, o.Words, func(value any) error {
		raw, err := pipe.Encode(value)
		if err != nil {
			return err
		}
		return send(raw)
	})
	if err != nil || value == nil {
		return nil, err
	}
	return pipe.Encode(value)
}

func (v Verb) check(words Words) error {
	for word, value := range words {
		form, known := v.Words[word]
		switch {
		case !known:
			return fmt.Errorf("the order takes no %q", word)
		case !form.fits(value):
			return fmt.Errorf("%s must %s", word, form.must)
		}
	}
	for _, word := range v.Needs {
		if words[word] == "" {
			return fmt.Errorf("the order needs %s", word)
		}
	}
	return nil
}
