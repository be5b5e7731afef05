// Package push calls people who are away: it sends the notices of remotes to the browsers that have subscribed with an
// API key, by Web Push, and takes the answers that a notification has buttons for. It runs in
// codex-console-orders.service, which alone has the key of the sender and the subscriptions. A message is encrypted for
// its browser, and goes out through a process with a network.
package push

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/console/deliver"
	"codex-proxy/console/webpush"
	"codex-proxy/workers/control"
)

const (
	// answerLife is how long the buttons of a notification work; an older one is not delivered either.
	answerLife = time.Hour
	// otherLife is how long a push service keeps another message for a browser that is away.
	otherLife = 4 * time.Hour
	// parallel bounds the messages on their way.
	parallel = 8
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

// Notice is an event of a remote for a person who is away.
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
	pause time.Duration
}

// New returns a pusher.
func New(s Settings) *Pusher { return &Pusher{s, pause} }

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

// Notice sends a notice to all who may know of the remote. It is finished also after the end of ctx.
func (p *Pusher) Notice(ctx context.Context, n Notice) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeBound)
	defer cancel()
	if titles[n.Event] == "" {
		p.Logger.Warn("a notice for browsers is refused", "error", "there is no event "+n.Event, "remote", n.Remote)
		return
	}
	all := p.recipients(ctx, n.Remote)
	questions, over := p.asked(ctx, n, all)
	if over {
		return
	}
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, r := range all {
		for _, m := range p.messages(n, r, questions) {
			group.Go(func() error {
				p.send(ctx, r.browser, m, n)
				return nil
			})
		}
	}
	_ = group.Wait() // none fails
}

// recipients are the browsers whose keys may attach to a remote now.
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

// current are the browsers with their keys as these are now. It forgets those of keys that are no more.
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

// outgoing is a message for one browser, and what its buttons may do.
type outgoing struct {
	message
	question  string
	decisions []string
}

func (p *Pusher) messages(n Notice, r recipient, questions []Question) (all []outgoing) {
	if r.remote == nil || len(questions) == 0 {
		return []outgoing{{message: plain(n)}}
	}
	for _, q := range questions {
		m, decisions := asking(n, q)
		all = append(all, outgoing{m, q.ID, decisions})
	}
	return all
}

// send sends one message, with a second try, and counts it.
func (p *Pusher) send(ctx context.Context, b browser, m outgoing, n Notice) {
	err := p.sign(b, &m, n)
	if err == nil {
		err = p.deliver(ctx, b.Subscription, m.message, m.question != "")
	}
	if err != nil && p.final(b, err) {
		p.Count(ctx, Gone)
		return
	}
	if err != nil {
		p.Logger.Warn("a push has failed", "error", err, "api_key_name", b.Key, "remote", n.Remote, "event", n.Event)
		p.Count(ctx, Failed)
		return
	}
	p.Count(ctx, Sent)
}

// sign gives the buttons of a message their right.
func (p *Pusher) sign(b browser, m *outgoing, n Notice) error {
	if len(m.decisions) == 0 {
		return nil
	}
	m.Token = rand.Text()
	now := time.Now()
	return p.Store.open(answer{Token: sumOf(m.Token), Endpoint: b.Endpoint, Remote: n.Remote, Thread: n.Thread,
		Question: m.question, Decisions: m.decisions, Until: now.Add(answerLife)}, now)
}

// final forgets a browser that no message reaches any more.
func (p *Pusher) final(b browser, err error) bool {
	var known *deliver.Error
	if !errors.As(err, &known) || known.Code != deliver.Gone && known.Code != deliver.Address {
		return false
	}
	p.forget(b, known.Message)
	return true
}

func (p *Pusher) forget(b browser, why string) {
	if err := p.Store.remove(b.Endpoint); err != nil {
		p.Logger.Warn("a push has failed", "error", err, "api_key_name", b.Key)
		return
	}
	p.Logger.Info("a browser gets no pushes any more", "api_key_name", b.Key, "reason", why)
}

func (p *Pusher) deliver(ctx context.Context, to webpush.Subscription, m message, urgent bool) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	body, err := to.Encrypt(text)
	if err != nil {
		return err
	}
	authorization, err := p.Key.Authorization(to, p.Contact, time.Now())
	if err != nil {
		return err
	}
	out := deliver.Message{Endpoint: to.Endpoint, Authorization: authorization, Urgency: "normal",
		TTL: int(otherLife.Seconds()), Body: body}
	if urgent {
		out.Urgency, out.TTL = "high", int(answerLife.Seconds())
	}
	err = p.Deliver(ctx, out)
	var known *deliver.Error
	if errors.As(err, &known) && known.Passing() {
		select {
		case <-time.After(p.pause):
			err = p.Deliver(ctx, out)
		case <-ctx.Done():
		}
	}
	return err
}
