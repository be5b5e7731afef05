package push

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/deliver"
	"codex-proxy/console/verbs"
	"codex-proxy/console/webpush"
	"codex-proxy/console/webpush/webpushtest"
	"codex-proxy/workers/control"
)

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
