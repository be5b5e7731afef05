// Package keyed is the console for other machines: people enter an API key with a right to it. The server, which
// browsers reach, passes the key and each order on to a second process, which reaches the daemon, and judges every
// order by its session itself.
package keyed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"codex-proxy/console/pipe"
	"codex-proxy/console/verbs"
	"codex-proxy/workers/control"
)

// The verbs that need no session.
const (
	login   = "login"   // exchanges a key for a session
	session = "session" // asks whether a session is in force
	origins = "origins" // asks for the addresses of the page
	answer  = "answer"  // carries out a button of a notification: the token of the button is the right to it
)

// operate is the right to give orders, and read the one to look (auth.Limits).
const (
	read    = "read"
	operate = "operate"
)

const (
	// again is how old the judgement of the key of a stream may be when a value goes out.
	again = time.Second
	// quiet is the same while none does.
	quiet = 5 * time.Second
)

// Orders carries out the orders of people with keys. Its methods are safe for concurrent use.
type Orders struct {
	Secret []byte // see Secret
	// Ask asks the daemon for a key.
	Ask func(context.Context, control.ConsoleAsk) (control.ConsoleKey, error)
	// Origins are the addresses of the page.
	Origins func() ([]string, error)
	// Verbs are the orders of a person with that key.
	Verbs func(control.ConsoleKey) map[string]verbs.Verb
	// Answer carries out a button of a notification; nil: there are no notifications.
	Answer func(ctx context.Context, token, decision string) error
	Logger *slog.Logger

	tries tries
	quiet time.Duration // 0: quiet
}

// errAway is for people, also without a key: it names no path of this machine.
var errAway = errors.New("codex-proxy does not answer; the operator sees why: systemctl status codex-proxy")

// ask asks the daemon. Only the daemon's own words reach a person.
func (o *Orders) ask(ctx context.Context, ask control.ConsoleAsk) (control.ConsoleKey, error) {
	key, err := o.Ask(ctx, ask)
	if errors.Is(err, control.ErrNotRunning) || errors.Is(err, control.ErrForbidden) {
		err = errAway
	}
	return key, err
}

// ended is the answer to a session that is over.
const ended = "enter the API key again: the session is over, or the key was revoked or its right has changed"

// begun is the answer to login, and to session.
type begun struct {
	Session  string `json:"session,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
	Key      string `json:"key,omitempty"`
	Why      string `json:"why,omitempty"` // no session
}

// Handle is a pipe.Handler.
func (o *Orders) Handle(ctx context.Context, order pipe.Order, send func(json.RawMessage) error) (json.RawMessage,
	error) {
	switch order.Verb {
	case origins:
		list, err := o.Origins()
		if err != nil {
			return nil, err
		}
		return pipe.Encode(list)
	case login:
		got, err := o.login(ctx, order.Words["key"])
		if err != nil {
			return nil, err
		}
		return pipe.Encode(got)
	case answer:
		return nil, o.answer(ctx, order.Words)
	}
	key, err := o.person(ctx, order.As)
	switch {
	case order.Verb == session && errors.Is(err, errOver):
		return pipe.Encode(begun{Why: ended})
	case err != nil:
		return nil, err
	case order.Verb == session:
		return pipe.Encode(begun{Key: key.Name})
	}
	all := o.Verbs(key)
	if verb := all[order.Verb]; verb.Changes {
		all[order.Verb] = o.recorded(order.Verb, verb, key)
	}
	table := verbs.Restricted(refusal(key), all)
	ctx, end := o.judged(ctx, order.As, key)
	defer end()
	return table.Handle(ctx, order, o.guard(ctx, order.As, key, send))
}

func (o *Orders) answer(ctx context.Context, words verbs.Words) error {
	if o.Answer == nil {
		return errors.New("there are no notifications")
	}
	return o.Answer(ctx, words["token"], words["decision"])
}

// judged ends an order when the rights of its key have changed, also while no value goes out: a person does not stay
// attached to a remote that is quiet.
func (o *Orders) judged(ctx context.Context, session string, key control.ConsoleKey) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var judging sync.WaitGroup
	judging.Go(func() {
		tick := time.NewTicker(cmp.Or(o.quiet, quiet))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now, err := o.person(ctx, session)
			refused := err != nil && !errors.Is(err, errAway) && ctx.Err() == nil // also for keys that are too old
			if refused || err == nil && !reflect.DeepEqual(now, key) {
				cancel()
			}
		}
	})
	return ctx, func() { cancel(); judging.Wait() }
}

// recorded is a verb with a line in the journal: it has the name of the key, and no text.
func (o *Orders) recorded(name string, verb verbs.Verb, key control.ConsoleKey) verbs.Verb {
	run := verb.Run
	verb.Run = func(ctx context.Context, w verbs.Words, send verbs.Send) (any, error) {
		o.Logger.Info("an order of the console", "api_key_name", key.Name, "verb", name,
			"subject", w["worker"]+w["account"]+w["remote"])
		return run(ctx, w, send)
	}
	return verb
}

func refusal(key control.ConsoleKey) error {
	if key.Right == operate {
		return nil
	}
	return fmt.Errorf("the key %[1]s only looks; the operator has it give orders: "+
		"codex-proxy keys set %[1]s --console=operate", key.Name)
}

// login exchanges a key for a session.
func (o *Orders) login(ctx context.Context, secret string) (begun, error) {
	now := time.Now()
	if !o.tries.take(now) {
		return begun{Why: fmt.Sprintf("there were %d wrong keys within a minute; try again in a minute", maxTries)}, nil
	}
	if secret == "" {
		return begun{Why: "the key is missing"}, nil
	}
	key, err := o.ask(ctx, control.ConsoleAsk{Key: secret})
	switch {
	case err != nil:
		o.tries.release()
		return begun{}, err
	case key.Name == "":
		o.Logger.Warn("the console has refused a wrong key")
		return begun{Why: "this is no API key of the service"}, nil
	}
	o.tries.release()
	if key.Right != read && key.Right != operate {
		return begun{Why: fmt.Sprintf("the key %[1]s has no right to the console; the operator gives it: "+
			"codex-proxy keys set %[1]s --console=read", key.Name)}, nil
	}
	o.Logger.Info("a session of the console has begun", "api_key_name", key.Name, "right", key.Right)
	session := signed(o.Secret, key, now.Add(sessionLife))
	return begun{Session: session, ReadOnly: key.Right != operate, Key: key.Name}, nil
}

// errOver is the error of a session that is not in force.
var errOver = errors.New(ended)

// person is the key of a session, as it is in force now.
func (o *Orders) person(ctx context.Context, session string) (control.ConsoleKey, error) {
	name := named(session, time.Now())
	if name == "" {
		return control.ConsoleKey{}, errOver
	}
	key, err := o.ask(ctx, control.ConsoleAsk{Name: name})
	if err == nil && (!genuine(o.Secret, key, session) || key.Right != read && key.Right != operate) {
		err = errOver
	}
	return key, err
}

// guard ends a stream when the rights of its key have changed: no value goes out later than a second after that.
func (o *Orders) guard(ctx context.Context, session string, key control.ConsoleKey,
	send func(json.RawMessage) error) func(json.RawMessage) error {
	judged := time.Now()
	return func(value json.RawMessage) error {
		if time.Since(judged) >= again {
			now, err := o.person(ctx, session)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(now, key) {
				return errors.New("the rights of the key have changed; open the page again")
			}
			judged = time.Now()
		}
		return send(value)
	}
}
