package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// A browser that takes no more is forgotten, and so is one of a key that is no more; others get their messages.
func TestBrowsersThatAreForgotten(t *testing.T) {
	r := newRig(t)
	gone, private, broken, well := r.subscribed("phone", "gone"), r.subscribed("phone", "private"), r.subscribed("phone", "broken"), r.subscribed("phone", "well")
	late := r.subscribed("alice", "late")
	r.fails[gone] = []error{&deliver.Error{Code: deliver.Gone, Message: "no more"}}
	r.fails[private] = []error{&deliver.Error{Code: deliver.Address, Message: "not public"}}
	r.fails[broken] = []error{&deliver.Error{Code: deliver.Refused, Message: "403"}}
	r.fails[late] = []error{&deliver.Error{Code: deliver.Unavailable, Message: "503"}}
	r.Notice(t.Context(), asks)
	assert.Equal(t, "build asks: run this command?", r.last(well).Title)
	assert.Len(t, r.got[late], 2, "the second try")
	assert.Equal(t, map[string]int{Sent: 7, Gone: 1, Failed: 2}, r.counted)
	var left []string
	for _, b := range r.Store.all() {
		left = append(left, b.Endpoint)
	}
	assert.Equal(t, []string{private, broken, well, late}, left)
	r.Notice(t.Context(), asks)
	assert.Equal(t, "build asks: run this command?", r.last(private).Title, "its name led nowhere for a while")
	r.set(control.ConsoleKey{Name: "alice", ID: "alice 2", Right: operate, Remotes: []string{"build"}})
	r.set(control.ConsoleKey{Name: "phone", ID: "phone 1"})
	r.Notice(t.Context(), asks)
	assert.Empty(t, r.Store.all())
	assert.Contains(t, r.log.String(), "the key was revoked")
}

// A push service that does not answer holds few places, and no others of the orders.
func TestSlowPushServices(t *testing.T) {
	r := newRig(t)
	b, answers := webpushtest.NewBrowser(t), make(chan error)
	results := make(chan error)
	begin := func(key, endpoint string) {
		r.mu.Lock()
		r.slow[endpoint] = answers
		r.mu.Unlock()
		go func() {
			_, err := r.order(key, "subscribe", verbs.Words{"endpoint": endpoint, "p256dh": b.P256dh(), "auth": b.Auth()})
			results <- err
		}()
	}
	begin("alice", "https://push.example.com/s1")
	<-r.waits
	begin("alice", "https://push.example.com/s2")
	require.ErrorIs(t, <-results, errOthers, "one with each key")
	begin("phone", "https://push.example.com/s3")
	<-r.waits
	begin("other", "https://push.example.com/s4")
	require.ErrorIs(t, <-results, errOthers, "two in all")
	for range maxNew {
		answers <- &deliver.Error{Code: deliver.Unavailable, Message: "late"}
		require.ErrorContains(t, <-results, "late", "there is no second try")
	}
	assert.Empty(t, r.waits)

	for i := range maxOfKey {
		endpoint := r.subscribed("alice", fmt.Sprint("tarpit", i))
		r.slow[endpoint] = answers
	}
	phone := r.subscribed("phone", "p")
	first := r.last(phone)
	done := make(chan struct{})
	go func() {
		r.Notice(t.Context(), asks)
		close(done)
	}()
	for range ofKey {
		<-r.waits
	}
	assert.Eventually(t, func() bool { return r.last(phone).Tag != first.Tag }, time.Minute, time.Millisecond)
	assert.Empty(t, r.waits, "others of the same key wait")
	for range maxOfKey {
		answers <- nil
	}
	<-done
	ctx, cancel := context.WithCancel(t.Context())
	for i := range parallel {
		_, err := r.place(ctx, fmt.Sprint("key", i))
		require.NoError(t, err)
	}
	cancel()
	_, err := r.place(ctx, "late")
	require.ErrorIs(t, err, errSlow)
	assert.Empty(t, r.own["late"], "it holds none of the places of its key")
}

func TestSubscribe(t *testing.T) {
	r := newRig(t)
	got, err := r.order("phone", "push", verbs.Words{})
	require.NoError(t, err)
	assert.Equal(t, known{r.Key.Public(), false}, got)
	endpoint := r.subscribed("phone", "1")
	on := func(key string) bool {
		got, err := r.order(key, "push", verbs.Words{"endpoint": endpoint})
		require.NoError(t, err)
		return got.(known).On
	}
	assert.True(t, on("phone"))
	assert.False(t, on("alice"), "of another key")
	_, err = r.order("alice", "unsubscribe", verbs.Words{"endpoint": endpoint})
	require.NoError(t, err)
	assert.True(t, on("phone"), "others turn off their own alone")
	info, err := os.Stat(r.file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	refused := "https://push.example.com/refused"
	r.fails[refused] = []error{&deliver.Error{Code: deliver.Address, Message: "the push service is not on the public network"}}
	_, err = r.subscribe("phone", "refused")
	require.ErrorContains(t, err, "not on the public network")
	b := webpushtest.NewBrowser(t)
	for name, words := range map[string]verbs.Words{
		"http":       {"endpoint": "http://push.example.com/1", "p256dh": b.P256dh(), "auth": b.Auth()},
		"no key":     {"endpoint": endpoint, "p256dh": strings.Repeat("A", 87), "auth": b.Auth()},
		"a fragment": {"endpoint": endpoint + "#x", "p256dh": b.P256dh(), "auth": b.Auth()},
	} {
		_, err := r.order("phone", "subscribe", words)
		require.Error(t, err, name)
	}
	table := verbs.New(false, r.Verbs(r.keys["phone"]))
	assert.Equal(t, []string{"push", "subscribe", "unsubscribe"}, table.Names())
	assert.Len(t, r.Store.all(), 1)
	for i := range maxOfKey - 1 {
		r.subscribed("phone", fmt.Sprint("more", i))
	}
	sent := len(r.sent)
	_, err = r.subscribe("phone", "one too many")
	require.ErrorContains(t, err, "16 browsers get the notifications of the key phone")
	assert.Len(t, r.sent, sent, "nothing is sent to it")
	r.subscribed("phone", "1")
	assert.Len(t, r.Store.all(), maxOfKey, "in its own place")
	r.subscribed("alice", "1")
	assert.True(t, on("alice"), "another key in the same browser")
	r.set(control.ConsoleKey{Name: "phone", ID: "phone 2", Right: operate, Remotes: []string{"build"}})
	r.subscribed("phone", "new")
	assert.Len(t, r.Store.all(), 2, "those of the earlier key are gone")

	require.NoError(t, os.WriteFile(r.file, []byte("{"), 0o600))
	_, err = OpenStore(r.file, "")
	require.ErrorContains(t, err, "remove it")
}

// What a notification does not show whole is declined only.
func TestWhatMayBeApproved(t *testing.T) {
	both, no := []string{accept, decline}, []string{decline}
	for name, c := range map[string]struct {
		q    Question
		want []string
		body string
	}{
		"a command":       {Question{Kind: "command", Text: "ls", Directory: "/srv", Decisions: both}, both, "ls\nin /srv"},
		"changes":         {Question{Kind: "change", Text: "add x\n  y\n", Decisions: both}, both, "add x\n  y"},
		"a long command":  {Question{Kind: "command", Text: "ls " + strings.Repeat("x", maxWhole), Decisions: both}, no, "Open the page"},
		"a long path":     {Question{Kind: "command", Text: "ls", Directory: "/" + strings.Repeat("x", maxWhole), Decisions: both}, no, "Open the page"},
		"many lines":      {Question{Kind: "command", Text: "ls\n\n\n\nrm -rf /", Decisions: both}, no, "Open the page"},
		"hidden signs":    {Question{Kind: "command", Text: "ls \u202e#", Decisions: both}, no, `ls \u{202e}#`},
		"blanks":          {Question{Kind: "command", Text: "ls \t\t x", Decisions: both}, no, "Open the page"},
		"nothing to read": {Question{Kind: "change", Decisions: both}, no, "Open the page"},
		"hidden by codex": {Question{Kind: "command", Text: "ls", Decisions: no}, no, "ls"},
		"of a terminal":   {Question{Kind: "other", Decisions: []string{}}, nil, "Open the page"},
	} {
		m, got := asking(Notice{Remote: "build"}, c.q)
		assert.Equal(t, c.want, got, name)
		assert.Len(t, m.Actions, len(got), name)
		assert.Contains(t, m.Body, c.body, name)
		text, err := json.Marshal(m)
		require.NoError(t, err)
		assert.Less(t, len(text), webpush.MaxText, name)
	}
}
