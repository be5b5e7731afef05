package turn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/internal/cause"
)

// Hands has the sessions in which the codex of some workers executes commands.
type Hands interface {
	// Of reports whether the worker has hands.
	Of(worker string) bool
	// Enter waits until a session serves, and makes it if it is missing. Its error is a *HandsError, unless ctx has
	// ended.
	Enter(ctx context.Context, worker string, of HandsSession) (*Stay, error)
}

// HandsSession identifies a session on a worker.
type HandsSession struct {
	Key  string // name of the API key
	Name string // that the client has given it; empty: it is of this turn, and ends with it
}

// Stay is the use of a session by a turn, until Leave.
type Stay struct {
	Environment appserver.Environment
	New         bool // the workspace is a new checkout, and no client knows of it
	// Told notes that the client of the turn knows of the checkout; nil: nothing does.
	Told  func()
	Leave func()
}

// HandsError is the reason for which a turn gets no session.
type HandsError struct {
	Code  HandsCode
	Words string
	Retry time.Duration // when the client may try again
}

// Error implements error.
func (e *HandsError) Error() string { return e.Words }

// HandsCode is the kind of a HandsError.
type HandsCode string

// The kinds.
const (
	HandsFull        HandsCode = "sessions_full"     // the worker has as many sessions as it may have
	HandsOfKeyFull   HandsCode = "key_sessions_full" // the key has
	HandsUnavailable HandsCode = "hands_unavailable" // the session does not start
)

// owner distinguishes threads that no other key, and no other session, may continue.
func (r *Request) owner() string {
	if r.Session == "" {
		return r.Key
	}
	return r.Key + "\x00" + r.Session
}

// staysAlone reports whether the session of the attempt ends with the turn.
func (t *run) staysAlone() bool { return t.stay != nil && t.Session == "" }

// handsBound bounds the wait for a session: the set-up of a repository may take long, and goes on without the turn.
const handsBound = 10 * time.Minute

var errHandsLate = &HandsError{Code: HandsUnavailable, Retry: time.Minute,
	Words: "the session is not ready yet, as a set-up or other sessions take long; send the request again"}

// enter enters the session of the turn, if the worker has hands. While it waits, the sink breaks the silence.
func (t *run) enter(ctx context.Context) error {
	t.stay = nil
	if t.Hands == nil || t.WithoutHands || !t.Hands.Of(t.lease.Worker) {
		return nil
	}
	span := t.span.Child("hands")
	stay, err := t.awaitStay(ctx)
	if err != nil {
		span.Fail("failed")
	}
	if span.End(); err != nil {
		return cause.Of(ctx, err)
	}
	t.stay, t.Report.Session = stay, t.Session
	t.Report.NewSession = t.Report.NewSession || stay.New // an attempt before may have had it, and no client knows
	t.Turn.Environment = &stay.Environment
	return nil
}

// mayStayElsewhere reports whether a turn that gets no session may run on another worker, as its client has named none.
// A worker that refuses at once has places at all times, and would take most turns.
func mayStayElsewhere(t *run, err error) bool {
	var refused *HandsError
	return errors.As(err, &refused) && refused != errHandsLate && t.Session == "" && t.output.repeatable() &&
		len(others(t)) > 0
}

// stayElsewhere has the turn run on another worker, once on each.
func stayElsewhere(t *run, err error) {
	t.Logger.Info("turn lost, it runs again",
		"request_id", t.ID, "worker", t.Report.Worker, "reason", err.Error(), "attempt", t.Report.Attempts)
	t.ask.Accounts, t.unserved = others(t), err
}

// orUnserved is why the turn gets no place: no other worker serves than those without a session for it.
func orUnserved(t *run, err error) error {
	if t.unserved != nil && slices.Contains([]string{"no_model", "not_ready", "exhausted"}, refusal(err)) {
		return t.unserved
	}
	return err
}

// others are the workers that may run the turn, without that of the attempt.
func others(t *run) []string {
	all := t.ask.Accounts
	if all == nil {
		all = t.Pool.Names()
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == t.lease.Worker })
}

// awaitStay enters the session on another goroutine, and breaks the silence of the sink meanwhile.
func (t *run) awaitStay(ctx context.Context) (*Stay, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handsBound, errHandsLate)
	defer cancel()
	type entered struct {
		stay *Stay
		err  error
	}
	done, worker := make(chan entered, 1), t.lease.Worker
	go func() {
		stay, err := t.Hands.Enter(ctx, worker, HandsSession{Key: t.Key, Name: t.Session})
		done <- entered{stay, err}
	}()
	var silences <-chan time.Time
	if t.BreakSilence {
		ticker := time.NewTicker(t.Keepalive)
		defer ticker.Stop()
		silences = ticker.C
	}
	var broken error
	for {
		select {
		case e := <-done:
			switch {
			case broken != nil && e.err == nil:
				e.stay.Leave()
				return nil, broken
			case e.err != nil:
				return nil, cmp.Or(broken, context.Cause(ctx), e.err)
			}
			return e.stay, nil
		case <-silences:
			if broken = t.sink.Silence(); broken != nil {
				cancel()
				silences = nil
			}
		}
	}
}

// inform notes that the client knows of a new checkout. A client sends the next request as soon as it has the answer.
func inform(t *run) {
	if t.stay != nil && t.stay.New && t.stay.Told != nil {
		t.stay.Told()
		t.stay.New = false
	}
}

// leave ends the use of the session.
func (t *run) leave() {
	if t.output.committed {
		inform(t)
	}
	if t.stay != nil {
		t.stay.Leave()
		t.stay, t.Turn.Environment = nil, nil
	}
}
