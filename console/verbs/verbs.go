// Package verbs has the orders of the console: sixteen at most, each with checked words. They run in the process that
// may use the control socket.
package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"codex-proxy/console/pipe"
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/probes"
	"codex-proxy/workers/control"
)

// Settings configure a Table.
type Settings struct {
	Client *control.Client
	// Doctor examines the installation, and returns the object of `codex-proxy doctor --json`.
	Doctor func(context.Context) (any, error)
	// AddKey makes an API key with limits, and returns it; RevokeKey removes one. A key may come with an error: then
	// it is in the file, and the running service does not have it.
	AddKey    func(ctx context.Context, name string, limits map[string]string) (KeyChange, error)
	RevokeKey func(ctx context.Context, name string) (KeyChange, error)
	ReadOnly  bool // orders that change something are refused
}

// KeyChange is the outcome of an order about a key.
type KeyChange struct {
	Key     string `json:"key,omitempty"` // a new one
	Outcome string `json:"outcome"`       // for people
}

// Table carries orders out.
type Table struct {
	settings Settings
	verbs    map[string]verb
}

// verb is one order.
type verb struct {
	changes bool
	words   map[string]*lazyregexp.Regexp // what each word must match; all are optional unless required
	needs   []string
	run     func(ctx context.Context, words map[string]string, send func(json.RawMessage) error) (any, error)
}

// The words. A key that is there may have any name that the key file accepts; new ones have the narrower form.
var (
	name   = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	key    = lazyregexp.New(`^[A-Za-z0-9_.-]{1,64}$`)
	number = lazyregexp.New(`^[1-9][0-9]{0,11}$`)
	list   = lazyregexp.New(`^[a-z]{1,16}(,[a-z]{1,16}){0,7}$`)
	days   = lazyregexp.New(`^[1-9][0-9]{0,2}d$`)
)

// ErrReadOnly is the refusal of a console that only shows.
var ErrReadOnly = errors.New("this console only shows: it was started with --read-only")

// New returns the table of all verbs.
func New(s Settings) *Table {
	t := &Table{settings: s}
	account := func(do control.AccountAction) verb {
		return verb{changes: true, words: map[string]*lazyregexp.Regexp{"account": name}, needs: []string{"account"},
			run: func(ctx context.Context, words map[string]string, _ func(json.RawMessage) error) (any, error) {
				return s.Client.OrderAccount(ctx, control.AccountOrder{Account: words["account"], Do: do})
			}}
	}
	worker := map[string]*lazyregexp.Regexp{"worker": name}
	t.verbs = map[string]verb{
		"watch": {words: map[string]*lazyregexp.Regexp{"of": list}, needs: []string{"of"}, run: t.watch},
		"usage": {words: map[string]*lazyregexp.Regexp{"since": days, "by": list}, needs: []string{"since", "by"},
			run: t.usage},
		"doctor": {run: t.doctor},
		"drain":  {changes: true, words: worker, needs: []string{"worker"}, run: t.drain(s.Client.Drain)},
		"undrain": {changes: true, words: worker, needs: []string{"worker"},
			run: t.drain(s.Client.Undrain)},
		"pause":  account(control.PauseAccount),
		"resume": account(control.ResumeAccount),
		"switch": account(control.SwitchAccount),
		"revoke": {changes: true, words: map[string]*lazyregexp.Regexp{"key": key}, needs: []string{"key"}, run: t.revoke},
		"add": {changes: true, needs: []string{"key"}, run: t.add, words: map[string]*lazyregexp.Regexp{
			"key": name, "requests-per-minute": number, "tokens-per-minute": number, "tokens-per-day": number,
			"concurrent": number,
		}},
	}
	return t
}

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
	if v.changes && t.settings.ReadOnly {
		return nil, ErrReadOnly
	}
	value, err := v.run(ctx, o.Words, send)
	if err != nil || value == nil {
		return nil, err
	}
	return json.Marshal(value)
}

func (v verb) check(words map[string]string) error {
	for word, text := range words {
		form, known := v.words[word]
		switch {
		case !known:
			return fmt.Errorf("the order takes no %q", word)
		case !form.MatchString(text):
			return fmt.Errorf("%s must match %s", word, form)
		}
	}
	for _, word := range v.needs {
		if words[word] == "" {
			return fmt.Errorf("the order needs %s", word)
		}
	}
	return nil
}

func (t *Table) watch(ctx context.Context, words map[string]string, send func(json.RawMessage) error) (any, error) {
	return nil, t.settings.Client.Follow(ctx, strings.Split(words["of"], ","), func(raw []byte) error {
		return send(slices.Clone(raw))
	})
}

func (t *Table) usage(ctx context.Context, words map[string]string, _ func(json.RawMessage) error) (any, error) {
	var table json.RawMessage
	err := t.settings.Client.Get(ctx, "/v1/usage?since="+words["since"]+"&by="+words["by"], &table)
	return table, err
}

func (t *Table) doctor(ctx context.Context, _ map[string]string, _ func(json.RawMessage) error) (any, error) {
	return t.settings.Doctor(ctx)
}

func (t *Table) drain(do func(context.Context, control.Request) (probes.Report, error)) func(
	context.Context, map[string]string, func(json.RawMessage) error) (any, error) {
	return func(ctx context.Context, words map[string]string, _ func(json.RawMessage) error) (any, error) {
		return do(ctx, control.Request{Worker: words["worker"]})
	}
}

// The change of a key goes on when the page is closed, as half of it may be done.

func (t *Table) revoke(ctx context.Context, words map[string]string, _ func(json.RawMessage) error) (any, error) {
	return t.settings.RevokeKey(context.WithoutCancel(ctx), words["key"])
}

func (t *Table) add(ctx context.Context, words map[string]string, _ func(json.RawMessage) error) (any, error) {
	limits := maps.Clone(words)
	delete(limits, "key")
	made, err := t.settings.AddKey(context.WithoutCancel(ctx), words["key"], limits)
	if made.Key == "" {
		return nil, err
	}
	if err != nil { // nobody could show the key again
		made.Outcome = err.Error()
	}
	return made, nil
}
