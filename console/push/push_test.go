package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"codex-proxy/console/deliver"
	"codex-proxy/console/verbs"
	"codex-proxy/console/webpush"
	"codex-proxy/console/webpush/webpushtest"
	"codex-proxy/workers/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a pusher with a daemon, remotes and a push service, all of them fakes.
type rig struct {
	*Pusher
	t    *testing.T
	file string

	mu       sync.Mutex
	keys     map[string]control.ConsoleKey
	browsers map[string]*webpushtest.Browser // by their endpoints
	fails    map[string][]error              // the answers of the push service; without one it takes the message
	slow     map[string]chan error           // those that come when somebody sends them
	waits    chan string                     // the endpoints of these
	got      map[string][]message
	sent     []deliver.Message
	asked    []Question
	askedErr error
	approved []string
	counted  map[string]int
	log      strings.Builder
}

func question(id string) Question {
	return Question{ID: id, Kind: "command", Text: "touch /srv/x", Directory: "/srv", Decisions: []string{accept, "acceptForSession", decline}}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, file: filepath.Join(t.TempDir(), "push.json"), browsers: map[string]*webpushtest.Browser{},
		fails: map[string][]error{}, slow: map[string]chan error{}, waits: make(chan string, 100), got: map[string][]message{}, counted: map[string]int{},
		keys: map[string]control.ConsoleKey{
			"phone":   {Name: "phone", ID: "phone 1", Right: operate, Remotes: []string{"build"}},
			"alice":   {Name: "alice", ID: "alice 1", Right: read, Remotes: []string{"build"}},
			"watcher": {Name: "watcher", ID: "watcher 1", Right: operate, Remotes: []string{"build:viewer"}},
			"other":   {Name: "other", ID: "other 1", Right: operate, Remotes: []string{"other"}},
		},
		asked: []Question{question("q1")},
	}
	key, err := webpush.LoadKey(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	r.open(key)
	return r
}

// open begins anew, as another process.
func (r *rig) open(key webpush.Key) {
	r.t.Helper()
	store, err := OpenStore(r.file, key.Public())
	require.NoError(r.t, err)
	r.Pusher = New(Settings{Store: store, Key: key, Contact: "https://codex.example.com", Ask: r.ask, Remote: r.remote,
		Deliver: r.take, Count: func(_ context.Context, outcome string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.counted[outcome]++
		}, Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
	r.pause = 0
}

func (r *rig) ask(_ context.Context, ask control.ConsoleAsk) (control.ConsoleKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[ask.Name], nil
}

func (r *rig) set(k control.ConsoleKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[k.Name] = k
}

func (r *rig) remote(key control.ConsoleKey, name string) (Remote, error) {
	for _, of := range key.Remotes {
		if of == name && key.Right == operate {
			return owner{r, key.Name, name}, nil
		}
		if strings.TrimSuffix(of, ":viewer") == name {
			return nil, nil
		}
	}
	return nil, errors.New("may not attach")
}

// owner is a remote.
type owner struct {
	*rig
	key, name string
}

func (o owner) Asked(context.Context, string) ([]Question, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked), o.askedErr
}

func (o owner) Approve(_ context.Context, thread, question, decision string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = slices.DeleteFunc(o.asked, func(q Question) bool { return q.ID == question })
	o.approved = append(o.approved, fmt.Sprint(o.key, " ", o.name, " ", thread, " ", question, " ", decision))
	return nil
}

// take is the push service with its browsers.
func (r *rig) take(ctx context.Context, m deliver.Message) error {
	r.mu.Lock()
	if slow := r.slow[m.Endpoint]; slow != nil {
		r.mu.Unlock()
		r.waits <- m.Endpoint
		select {
		case err := <-slow:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer r.mu.Unlock()
	if list := r.fails[m.Endpoint]; len(list) > 0 {
		r.fails[m.Endpoint] = list[1:]
		if list[0] != nil {
			return list[0]
		}
	}
	claims, err := webpushtest.Verify(m.Authorization, r.Key.Public())
	require.NoError(r.t, err)
	assert.Equal(r.t, "https://push.example.com", claims.Audience)
	assert.Equal(r.t, "https://codex.example.com", claims.Subject)
	text, err := r.browsers[m.Endpoint].Decrypt(m.Body)
	require.NoError(r.t, err)
	var shown message
	require.NoError(r.t, json.Unmarshal(text, &shown))
	r.got[m.Endpoint], r.sent = append(r.got[m.Endpoint], shown), append(r.sent, m)
	return nil
}

// order gives an order of a person with a key, as the page does.
func (r *rig) order(key, verb string, words verbs.Words) (any, error) {
	v := r.Verbs(r.keys[key])[verb]
	assert.False(r.t, v.Changes, "a person who only looks may have notifications")
	return v.Run(r.t.Context(), words, nil)
}

func (r *rig) subscribe(key, name string) (endpoint string, err error) {
	r.t.Helper()
	endpoint = "https://push.example.com/" + name
	b := webpushtest.NewBrowser(r.t)
	r.browsers[endpoint] = b
	_, err = r.order(key, "subscribe", verbs.Words{"endpoint": endpoint, "p256dh": b.P256dh(), "auth": b.Auth()})
	return endpoint, err
}

func (r *rig) subscribed(key, name string) string {
	r.t.Helper()
	endpoint, err := r.subscribe(key, name)
	require.NoError(r.t, err)
	assert.Equal(r.t, "Notifications are on", r.last(endpoint).Title, "the first one")
	return endpoint
}

func (r *rig) last(endpoint string) message {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(r.t, r.got[endpoint], endpoint)
	return r.got[endpoint][len(r.got[endpoint])-1]
}

var asks = Notice{Remote: "build", Event: waiting, Thread: "t1"}

// An owner's browser gets the question with buttons, a reader's and a viewer's that a turn waits, others nothing.
func TestWhoGetsWhat(t *testing.T) {
	r := newRig(t)
	phone, alice, watcher, other := r.subscribed("phone", "p"), r.subscribed("alice", "a"), r.subscribed("watcher", "w"), r.subscribed("other", "o")
	r.Notice(t.Context(), asks)
	got := r.last(phone)
	assert.NotEmpty(t, got.Token)
	got.Token = ""
	assert.Equal(t, message{Title: "build asks: run this command?", Body: "touch /srv/x\nin /srv", Tag: "build q1",
		Actions: []action{{accept, "Approve"}, {decline, "Deny"}}}, got)
	for _, endpoint := range []string{alice, watcher} {
		assert.Equal(t, message{Title: "build: a turn waits for a person", Body: "Open the page, or a terminal: codex-proxy attach build",
			Tag: "build approval-waiting t1"}, r.last(endpoint))
	}
	assert.Len(t, r.got[other], 1)
	for _, m := range r.sent[4:] {
		want := map[bool]string{true: "high", false: "normal"}[m.Endpoint == phone]
		assert.Equal(t, want, m.Urgency)
	}
	assert.Equal(t, map[string]int{Sent: 7}, r.counted)

	r.Notice(t.Context(), Notice{Remote: "build", Event: "turn-ended", Thread: "t1", Status: "completed", Text: "All tests pass." + strings.Repeat("é", 5000)})
	assert.Equal(t, "build: the turn has ended", r.last(alice).Title)
	assert.Equal(t, "All tests pass."+strings.Repeat("é", maxBody-15)+"…", r.last(phone).Body)
	assert.Empty(t, r.last(phone).Actions)
	for status, title := range map[string]string{"failed": "build: the turn has failed", "interrupted": "build: the turn was interrupted"} {
		r.Notice(t.Context(), Notice{Remote: "build", Event: "turn-ended", Status: status})
		assert.Equal(t, title, r.last(alice).Title)
	}
	before := len(r.sent)
	r.Notice(t.Context(), Notice{Remote: "build", Event: "made-up", Text: "x"})
	r.asked = nil
	r.Notice(t.Context(), asks)
	assert.Len(t, r.sent, before, "the turn waits no more")
	r.askedErr = errors.New("the remote has gone")
	r.Notice(t.Context(), asks)
	assert.Equal(t, "build: a turn waits for a person", r.last(phone).Title)
	for _, secret := range []string{phone, "touch /srv/x", "All tests pass", got.Token + "x"} {
		assert.NotContains(t, r.log.String(), secret)
	}
}

// A button works once, after a restart, too, for the question that was shown, and while its key has the right.
func TestAnswer(t *testing.T) {
	r := newRig(t)
	phone := r.subscribed("phone", "p")
	token := func() string {
		r.Wait()
		r.asked = []Question{question("q1")}
		r.Notice(t.Context(), asks)
		return r.last(phone).Token
	}
	first := token()
	require.ErrorContains(t, r.Answer(t.Context(), first, "acceptForSession"), "no such button")
	require.ErrorIs(t, r.Answer(t.Context(), first+"x", accept), errUsed)
	require.ErrorIs(t, r.Answer(t.Context(), "", accept), errUsed)
	require.ErrorIs(t, r.Answer(t.Context(), sumOf(first), accept), errUsed, "what the file has opens nothing")
	r.open(r.Key)
	require.NoError(t, r.Answer(t.Context(), first, accept))
	r.Wait()
	assert.Equal(t, []string{"phone build t1 q1 accept"}, r.approved)
	require.ErrorIs(t, r.Answer(t.Context(), first, accept), errUsed, "again")
	r.open(r.Key)
	require.ErrorIs(t, r.Answer(t.Context(), first, decline), errUsed, "after a restart")
	require.NoError(t, r.Answer(t.Context(), token(), decline))

	key := r.keys["phone"]
	for name, change := range map[string]func(*control.ConsoleKey){
		"revoked":              func(k *control.ConsoleKey) { *k = control.ConsoleKey{} },
		"made anew":            func(k *control.ConsoleKey) { k.ID = "phone 2" },
		"it only looks":        func(k *control.ConsoleKey) { k.Right = read },
		"no right":             func(k *control.ConsoleKey) { k.Right = "" },
		"it only watches":      func(k *control.ConsoleKey) { k.Remotes = []string{"build:viewer"} },
		"another remote alone": func(k *control.ConsoleKey) { k.Remotes = []string{"other"} },
	} {
		r.set(key)
		one := token()
		now := key
		change(&now)
		r.mu.Lock()
		r.keys["phone"] = now
		r.mu.Unlock()
		require.Error(t, r.Answer(t.Context(), one, accept), name)
		assert.Len(t, r.approved, 2, name)
		r.set(key)
	}
	many := make(chan error, 20)
	one := token()
	for range cap(many) {
		go func() { many <- r.Answer(t.Context(), one, accept) }()
	}
	worked := 0
	for range cap(many) {
		if <-many == nil {
			worked++
		}
	}
	assert.Equal(t, 1, worked, "at the same time")
	off, file := token(), r.Store.file
	r.Store.file = filepath.Join(t.TempDir(), "missing", "push.json")
	r.Notice(t.Context(), asks)
	assert.Empty(t, r.last(phone).Token, "what cannot be kept has no button")
	assert.Empty(t, r.last(phone).Actions)
	r.Store.file = file
	_, err := r.order("phone", "unsubscribe", verbs.Words{"endpoint": phone})
	require.NoError(t, err)
	require.ErrorIs(t, r.Answer(t.Context(), off, accept), errUsed, "the browser has turned them off")
}

// After the loss of the key, a page offers to turn notifications on again.
func TestAnotherKey(t *testing.T) {
	r := newRig(t)
	endpoint := r.subscribed("phone", "p")
	key, err := webpush.LoadKey(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	r.open(key)
	got, err := r.order("phone", "push", verbs.Words{"endpoint": endpoint})
	require.NoError(t, err)
	assert.Equal(t, known{key.Public(), false}, got)
	sent := len(r.sent)
	r.Notice(t.Context(), asks)
	assert.Len(t, r.sent, sent)
	r.subscribed("phone", "p")
	r.Notice(t.Context(), asks)
	assert.NotEmpty(t, r.last(endpoint).Token)
}

// An answer has the questions sent that the turn still waits for, once, to those who may answer: their event comes for
// the first one alone.
func TestFurtherQuestions(t *testing.T) {
	r := newRig(t)
	phone, alice := r.subscribed("phone", "p"), r.subscribed("alice", "a")
	answers := func(m message) message {
		require.NoError(t, r.Answer(t.Context(), m.Token, accept))
		r.Wait()
		return r.last(phone)
	}
	r.Notice(t.Context(), asks)
	r.asked = append(r.asked, question("q2"))
	second := answers(r.last(phone))
	assert.Equal(t, "build q2", second.Tag)
	assert.Len(t, r.got[alice], 2, "the first one, and that a turn waits")
	r.asked = append(r.asked, question("q3"), question("q4"))
	third := answers(second)
	assert.Equal(t, "build q4", third.Tag)
	assert.Len(t, r.got[phone], 5)
	answers(third)
	assert.Len(t, r.got[phone], 5, "q3 has a notification")
	r.asked = nil
	answers(r.got[phone][3])
	assert.Len(t, r.got[phone], 5, "the turn waits no more")
}
