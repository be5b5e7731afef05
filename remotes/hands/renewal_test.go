package hands

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/outcome"
	"codex-proxy/runner/session"
)

// person is a client that keeps what it gets.
type person struct {
	name    string
	answers []any
	gone    bool
	sent    []string // method and params
}

func (p *person) Name() string { return p.name }
func (*person) User() string   { return "alice" }
func (p *person) Answer(result any) error {
	p.answers = append(p.answers, result)
	return nil
}

func (p *person) Notify(method string, params any) error {
	if p.gone {
		return errors.New("gone")
	}
	text, err := json.Marshal(params)
	p.sent = append(p.sent, method+" "+string(text))
	return err
}

// newHands has a record in a directory of its own.
func newHands(t *testing.T) *Hands {
	t.Helper()
	h, err := New(Options{Mark: "codex-remote@build", Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return h
}

// A new checkout is announced once in each thread that is older, to the model and to a person, also after a restart.
func TestRenewal(t *testing.T) {
	h := newHands(t)
	now := time.Now()
	before, after := newTurnID(now.Add(-time.Hour)), newTurnID(now.Add(time.Hour))
	unused := record{Session: "aaaaaaaaaaaaaaaa"}.renewed("it was closed", now)
	assert.Empty(t, unused.Renewals, "nothing was changed there")
	memory{h}.update(func(r *record) {
		*r = record{Session: "aaaaaaaaaaaaaaaa", Served: true}.renewed("it was closed", now)
		r.Session = "bbbbbbbbbbbbbbbb"
	})
	var told []string
	inject := func(_ context.Context, thread string, items []any) error {
		text, err := json.Marshal(items)
		told = append(told, thread+" "+string(text))
		return err
	}
	h.Announce(t.Context(), before, func(context.Context, string, []any) error { return errors.New("codex has ended") })
	h.Announce(t.Context(), before, inject)
	h.Announce(t.Context(), before, inject)
	h.Announce(t.Context(), after, inject)
	h.Announce(t.Context(), "no id of codex", inject)
	require.Len(t, told, 1)
	for _, part := range []string{before, "it was closed", "codex-runner diff aaaaaaaaaaaaaaaa", `"role":"user"`} {
		assert.Contains(t, told[0], part)
	}

	h, err := New(Options{Mark: "codex-remote@build", Dir: h.Dir, Logger: h.Logger})
	require.NoError(t, err)
	g := &Gate{Hands: h, Inject: inject}
	one := &person{name: "1", gone: true}
	settle := func(p *person, method, params string) {
		t.Helper()
		got, err := g.Settle(t.Context(), p, method, []byte(params))
		require.NoError(t, err)
		if method == "thread/read" {
			assert.Equal(t, params, string(got))
		}
	}
	settle(one, "turn/start", `{"threadId":"`+before+`"}`)
	one = &person{name: "2"}
	settle(one, "thread/resume", `{"threadId":"`+before+`"}`)
	assert.Empty(t, one.sent, "codex has not answered")
	settle(one, "thread/read", `{}`)
	require.Len(t, one.sent, 1)
	assert.Contains(t, one.sent[0], `warning {"message":"The workspace is a new checkout: it was closed.`)
	settle(one, "turn/start", `{"threadId":"`+before+`"}`)
	settle(one, "turn/start", `{"threadId":"`+after+`"}`)
	assert.Len(t, one.sent, 1)
	assert.Len(t, told, 1, "the model knows")

	settle(one, "thread/fork", `{"threadId":"`+before+`"}`)
	settle(one, "turn/start", `{"threadId":"`+newTurnID(now.Add(-time.Minute))+`"}`)
	require.Len(t, told, 2, "an older thread")
	settle(one, "turn/start", `{"threadId":"`+after+`"}`)
	settle(one, "turn/start", `{"threadId":"`+after+`"}`)
	require.Len(t, told, 3, "the fork has the history of an older thread")
	assert.Contains(t, told[2], after)
	assert.Len(t, one.sent, 3)
	assert.Contains(t, one.sent[2], after)
	settle(one, "turn/start", `{"threadId":"`+newTurnID(now.Add(2*time.Hour))+`"}`)
	assert.Len(t, told, 3, "no fork")

	// A fork of a fork, before the fork had a turn, and after it.
	fork, younger, youngest := newTurnID(now.Add(2*time.Hour)), newTurnID(now.Add(3*time.Hour)), newTurnID(now.Add(4*time.Hour))
	settle(one, "thread/fork", `{"threadId":"`+before+`"}`)
	settle(one, "thread/fork", `{"threadId":"`+fork+`"}`)
	settle(one, "turn/start", `{"threadId":"`+younger+`"}`)
	require.Len(t, told, 4)
	assert.Contains(t, told[3], younger)
	settle(one, "turn/start", `{"threadId":"`+fork+`"}`)
	require.Len(t, told, 5, "its fork has not taken its notice away")
	settle(one, "thread/fork", `{"threadId":"`+younger+`"}`)
	settle(one, "turn/start", `{"threadId":"`+youngest+`"}`)
	require.Len(t, told, 6, "it may be of a time before the notice")
	told, one.sent = told[:3], one.sent[:3]

	settle(one, "thread/rollback", `{"threadId":"`+before+`","numTurns":1}`)
	settle(one, "turn/start", `{"threadId":"`+before+`"}`)
	require.Len(t, told, 4, "the words may be gone")
	assert.Contains(t, told[3], before)
	settle(one, "thread/resume", `{"threadId":"x"}`)
	settle(one, "thread/fork", `{"threadId":"x"}`)
	g.Left("2")
	assert.Empty(t, g.resumed)
	assert.Empty(t, g.forked)
}

// The record has bounds, whatever happens to the workspace.
func TestRenewalsAreBounded(t *testing.T) {
	r := record{Session: "aaaaaaaaaaaaaaaa", Served: true}
	for range 3 * mostRenewals {
		r = r.renewed(strings.Repeat("x", 1<<20), time.Now())
	}
	assert.Len(t, r.Renewals, mostRenewals)
	assert.Less(t, len(r.Renewals[0].Reason), 2*mostReason)
	h := newHands(t)
	h.record = r
	h.record.Renewals = h.record.Renewals[:1]
	for n := range mostInformed + 5 {
		h.record.Renewals[0].Informed = append(h.record.Renewals[0].Informed, newTurnID(time.UnixMilli(int64(n))))
	}
	memory{h}.know("the last", informed)
	assert.Len(t, h.record.Renewals[0].Informed, mostInformed)
	assert.Contains(t, h.record.Renewals[0].Informed, "the last")
}

// Only a session that has lost its files is given up: another fault may pass.
func TestLacksWorkspace(t *testing.T) {
	h := lifecycle{newHands(t)}
	refusal := "cannot give slot 1 to the session: " + session.NoWorkspace + ": …"
	lost := outcome.Decide(outcome.Facts{Ended: &session.Ended{Refusal: refusal}})
	quoted := outcome.Decide(outcome.Facts{Result: &session.Result{Note: "env: " + session.NoSnapshot + " cannot be set here.",
		Failure: &session.Failure{Stage: session.StartStage, Text: "no memory"}}})
	failed := outcome.Decide(outcome.Facts{Ended: &session.Ended{ServiceResult: "resources"}})
	h.number = 1
	assert.Empty(t, h.lacksWorkspace(&lost), "the first command makes it")
	h.number = 2
	assert.NotEmpty(t, h.lacksWorkspace(&lost))
	assert.Empty(t, h.lacksWorkspace(&failed))
	assert.Empty(t, h.lacksWorkspace(&quoted), "a file of the repository has the words")
	assert.Empty(t, h.lacksWorkspace(nil))
}

func TestIsMarked(t *testing.T) {
	h := lifecycle{&Hands{Options: Options{Mark: "codex-remote@build", Program: "/opt/codex"}}}
	args := h.command("token").Args
	assert.True(t, isMarked(args, "codex-remote@build"))
	assert.False(t, isMarked(args, "codex-remote@other"))
	assert.False(t, isMarked([]string{"codex-remote@build"}, "codex-remote@build"))
	assert.Equal(t, "/opt/codex", args[4])
}
