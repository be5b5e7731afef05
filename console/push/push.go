// Package push notifies absent people: it sends the notices of remotes to the browsers that have subscribed with an
// API key, by Web Push, and takes the answers that a notification has buttons for. It runs in
// codex-console-orders.service, which alone has the key of the sender and the subscriptions. A message is encrypted for
// its browser, and goes out through a process with a network.
package push

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"codex-proxy/console/deliver"
	"codex-proxy/console/webpush"
	"codex-proxy/workers/control"
)

const (
	// answerLife is how long the buttons of a notification work; an older one is not delivered either.
	answerLife = time.Hour
	// otherLife is how long a push service keeps another message for a browser that is away.
	otherLife = 4 * time.Hour
	// parallel and ofKey bound the messages on their way, of all keys and of one: its push service may be slow.
	parallel = 8
	ofKey    = 2
	// maxQuestions bounds the questions of a turn that are sent; the page has all.
	maxQuestions = 4
	// noticeBound bounds the work for one notice.
	noticeBound = time.Minute
	// pause is the time before the second, last try.
	pause = 2 * time.Second
)

// The events of a turn that waits for a person: for an approval, and for a word after the end of codex.
const (
	waiting = "approval-waiting"
	cutTurn = "turn-cut"
)

// operate is the right to give orders, and read the one to look (auth.Limits).
const (
	read    = "read"
	operate = "operate"
)

// The outcomes of a message.
const (
	Sent   = "sent"
	Gone   = "gone" // the browser takes no more
	Failed = "failed"
)

// Notice is an event of a remote for an absent person.
type Notice struct {
	Remote, Event, Thread, Status, Text string
}

// Question is an approval that a turn waits for.
type Question struct {
	ID, Kind, Text, Directory string
	Decisions                 []string
}

// Remote is how an owner of a remote sees and answers its questions.
type Remote interface {
	// Asked are the questions that the turn of the thread waits for now.
	Asked(ctx context.Context, thread string) ([]Question, error)
	Approve(ctx context.Context, thread, question, decision string) error
}

// Settings configure a Pusher.
type Settings struct {
	// None is why there are no notifications, for people: every order gets it; nil: there are.
	None  error
	Store *Store
	Key   webpush.Key
	// Contact is a URL by which push services reach the operator; it may be empty.
	Contact string
	// Ask asks the daemon for a key.
	Ask func(context.Context, control.ConsoleAsk) (control.ConsoleKey, error)
	// Remote is a remote for a person with that key: an error if the key may not attach, nil if it only watches.
	Remote func(key control.ConsoleKey, name string) (Remote, error)
	// Deliver sends a message. Its errors are of type *deliver.Error.
	Deliver func(context.Context, deliver.Message) error
	// Count counts a message by its outcome.
	Count  func(ctx context.Context, outcome string)
	Logger *slog.Logger
}

// Pusher sends notices. Its methods are safe for concurrent use.
type Pusher struct {
	Settings
	pause  time.Duration
	places chan struct{}  // has one entry for each message of a notice
	later  sync.WaitGroup // see further

	mu      sync.Mutex               // guards the rest
	own     map[string]chan struct{} // by key: the same for its messages
	turning map[string]bool          // by key: a browser is being turned on
}

// New returns a pusher.
func New(s Settings) *Pusher {
	return &Pusher{Settings: s, pause: pause, places: make(chan struct{}, parallel), own: map[string]chan struct{}{},
		turning: map[string]bool{}}
}

// subscriber is a browser with its key.
type subscriber struct {
	browser
	key control.ConsoleKey
}

// recipient is a browser that may know of a remote.
type recipient struct {
	browser
	remote Remote // nil: its person only watches
}

// Notice sends a notice to the recipients for its remote. It finishes also after the end of ctx.
func (p *Pusher) Notice(ctx context.Context, n Notice) {
	switch {
	case p.None != nil:
	case titles[n.Event] == "":
		p.Logger.Warn("a notice for browsers is refused", "error", "there is no event "+n.Event, "remote", n.Remote)
	default:
		p.notice(ctx, n, func(_ recipient, questions []Question) ([]Question, bool) { return questions, true })
	}
}

// further sends the questions that a turn still waits for after the answer to one: their event has come, for the first.
func (p *Pusher) further(ctx context.Context, n Notice) {
	p.notice(ctx, n, func(r recipient, questions []Question) ([]Question, bool) {
		if r.remote == nil {
			return nil, false
		}
		left := p.Store.unasked(r.Endpoint, n, questions)
		return left, len(left) > 0
	})
}

// Wait returns when the messages after the answers have been sent.
func (p *Pusher) Wait() { p.later.Wait() }

// notice sends a notice to the recipients that choose names, each with the questions that it returns.
func (p *Pusher) notice(ctx context.Context, n Notice, choose func(recipient, []Question) ([]Question, bool)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeBound)
	defer cancel()
	all := p.recipients(ctx, n.Remote)
	questions, over := p.asked(ctx, n, all)
	if over {
		return
	}
	now := time.Now()
	var answers []answer
	out := make([][]message, len(all))
	for i, r := range all {
		if chosen, is := choose(r, questions); is {
			var fresh []answer
			out[i], fresh = messages(n, r, chosen, now)
			answers = append(answers, fresh...)
		}
	}
	p.sign(answers, out, now)
	var group sync.WaitGroup
	for i, r := range all {
		group.Go(func() {
			for _, m := range out[i] {
				p.send(ctx, r.browser, m, r.remote != nil && len(questions) > 0, n)
			}
		})
	}
	group.Wait()
}

// recipients are the browsers with keys that may attach to a remote now.
func (p *Pusher) recipients(ctx context.Context, remote string) (all []recipient) {
	for _, c := range p.current(ctx) {
		r, err := p.Remote(c.key, remote)
		if err != nil { // this key may not attach
			continue
		}
		if c.key.Right != operate {
			r = nil
		}
		all = append(all, recipient{c.browser, r})
	}
	return all
}

// current are the browsers with their keys as these are now. It forgets browsers with a key that does not exist any
// more.
func (p *Pusher) current(ctx context.Context) (all []subscriber) {
	keys := map[string]control.ConsoleKey{}
	for _, b := range p.Store.all() {
		key, known := keys[b.Key]
		if !known {
			var err error
			if key, err = p.Ask(ctx, control.ConsoleAsk{Name: b.Key}); err != nil {
				p.Logger.Warn("a push has failed", "error", err, "api_key_name", b.Key)
				continue
			}
			keys[b.Key] = key
		}
		if !b.inForce(key) {
			p.forget(b, "the key was revoked, or has no right to the console any more")
			continue
		}
		all = append(all, subscriber{b, key})
	}
	return all
}

// inForce reports whether the browser was subscribed with the key as it is now.
func (b browser) inForce(key control.ConsoleKey) bool {
	return b.of(key) && (key.Right == read || key.Right == operate)
}

// asked are the questions of a turn that waits, if a recipient may answer; over means that it waits no more.
func (p *Pusher) asked(ctx context.Context, n Notice, all []recipient) (questions []Question, over bool) {
	if n.Event != waiting {
		return nil, false
	}
	for _, r := range all {
		if r.remote == nil {
			continue
		}
		questions, err := r.remote.Asked(ctx, n.Thread)
		if err != nil {
			p.Logger.Warn("the question of a remote is not in its push", "error", err, "remote", n.Remote,
				"thread_id", n.Thread)
		}
		return questions[:min(len(questions), maxQuestions)], err == nil && len(questions) == 0
	}
	return nil, false
}

// messages are those for one recipient, and what their buttons may do.
func messages(n Notice, r recipient, questions []Question, now time.Time) (all []message, answers []answer) {
	if r.remote == nil || len(questions) == 0 {
		return []message{plain(n)}, nil
	}
	for _, q := range questions {
		m, decisions := asking(n, q)
		if len(decisions) > 0 {
			m.Token = rand.Text()
			answers = append(answers, answer{Token: sumOf(m.Token), Browser: sumOf(r.Endpoint), Remote: n.Remote,
				Thread: n.Thread, Question: q.ID, Decisions: decisions, Until: now.Add(answerLife)})
		}
		all = append(all, m)
	}
	return all, answers
}

// sign gives the buttons of all messages their right, at once. Without it they have none.
func (p *Pusher) sign(answers []answer, all [][]message, now time.Time) {
	err := p.Store.open(answers, now)
	if err == nil {
		return
	}
	p.Logger.Warn("a push has failed", "error", err)
	for _, list := range all {
		for i := range list {
			list[i].Token, list[i].Actions = "", nil
		}
	}
}
