package remotes

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"codex-proxy/codex/turnerror"
	"codex-proxy/remotes/codexthread"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/turnjournal"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func empty() *state {
	s := newState(turnjournal.Journal{Threads: map[string]*turnjournal.Record{}}, now)
	return &s
}

// What clients ask for and what codex reports reach the manager on two connections, so either may come first.
func TestTurnState(t *testing.T) {
	for name, c := range map[string]struct {
		steps func(*state)
		want  *turnjournal.Record
	}{
		"asked":            {func(s *state) { s.asked("T", said("m", "x"), now) }, &turnjournal.Record{Inputs: []turnjournal.Input{said("m", "x")}}},
		"asked, started":   {func(s *state) { s.asked("T", said("m", "x"), now); s.started("T", "t1", now) }, &turnjournal.Record{Turn: "t1", Inputs: []turnjournal.Input{said("m", "x")}}},
		"started by codex": {func(s *state) { s.started("T", "t1", now) }, &turnjournal.Record{Turn: "t1"}},
		"a whole turn": {func(s *state) {
			s.asked("T", said("m", "x"), now)
			s.started("T", "t1", now)
			s.seen("T", codexthread.Message{ClientID: "m", Content: said("m", "x").Content})
			s.ended("T", "t1", now)
		}, nil},
		"a message that came as the turn ended starts the next": {func(s *state) {
			s.asked("T", said("m", "x"), now)
			s.started("T", "t1", now)
			s.seen("T", codexthread.Message{ClientID: "m", Content: said("m", "x").Content})
			s.asked("T", said("n", "y"), now)
			s.ended("T", "t1", now)
		}, &turnjournal.Record{After: "t1", Inputs: []turnjournal.Input{said("n", "y")}}},
		"the end of an earlier turn": {func(s *state) { s.started("T", "t2", now); s.ended("T", "t1", now) }, &turnjournal.Record{Turn: "t2"}},
		"interrupted": {func(s *state) {
			s.asked("T", said("m", "x"), now)
			s.started("T", "t1", now)
			s.interrupt("T", "t1", now)
		}, &turnjournal.Record{Turn: "t1", Interrupted: "t1"}},
		"interrupted before codex reports the turn": {func(s *state) {
			s.asked("T", said("m", "x"), now)
			s.interrupt("T", "t1", now)
			s.started("T", "t1", now)
		}, &turnjournal.Record{Turn: "t1", Interrupted: "t1"}},
		"interrupted without a turn, before codex reports it": {func(s *state) {
			s.asked("T", said("m", "x"), now)
			s.interrupt("T", "", now)
			s.started("T", "t1", now)
		}, &turnjournal.Record{Turn: "t1", Interrupted: "t1"}},
		"interrupted without a turn":       {func(s *state) { s.started("T", "t1", now); s.interrupt("T", "", now) }, &turnjournal.Record{Turn: "t1", Interrupted: "t1"}},
		"an interrupt that comes too late": {func(s *state) { s.started("T", "t2", now); s.interrupt("T", "t1", now) }, &turnjournal.Record{Turn: "t2"}},
		"a message after an interrupt is another turn's": {func(s *state) {
			s.started("T", "t1", now)
			s.interrupt("T", "t1", now)
			s.asked("T", said("n", "y"), now)
			s.started("T", "t2", now)
		}, &turnjournal.Record{Turn: "t2", Interrupted: "t1", Inputs: []turnjournal.Input{said("n", "y")}}},
		"the settings of the first client stay with the turn, and with the next one of its messages": {func(s *state) {
			s.loaded("T", map[string]json.RawMessage{"no": nil}) // it has no turn
			s.asked("T", said("m", "x"), now)
			s.loaded("T", map[string]json.RawMessage{"a": json.RawMessage("1")})
			s.started("T", "t1", now)
			s.seen("T", codexthread.Message{ClientID: "m", Content: said("m", "x").Content})
			s.asked("T", said("n", "y"), now)
			s.loaded("T", map[string]json.RawMessage{"a": json.RawMessage("2")})
			s.ended("T", "t1", now)
		}, &turnjournal.Record{After: "t1", Inputs: []turnjournal.Input{said("n", "y")},
			Config: map[string]json.RawMessage{"a": json.RawMessage("1")}}},
		"a shell command":           {func(s *state) { s.other("T", "shell", now); s.started("T", "t1", now) }, &turnjournal.Record{Turn: "t1", Kind: "shell"}},
		"a shell command in a turn": {func(s *state) { s.started("T", "t1", now); s.other("T", "shell", now) }, &turnjournal.Record{Turn: "t1"}},
		"a turn after a shell command": {func(s *state) {
			s.other("T", "shell", now)
			s.asked("T", said("m", "x"), now)
			s.started("T", "t1", now)
		}, &turnjournal.Record{Turn: "t1", Inputs: []turnjournal.Input{said("m", "x")}}},
		"a shell command beside an offer to continue": {func(s *state) {
			*s.ensure("T", now) = turnjournal.Record{Since: now, Turn: "t1", Asked: true}
			s.started("T", "t2", now)
			s.ended("T", "t2", now)
		}, &turnjournal.Record{Turn: "t1", Asked: true}},
		"a message beside an offer to continue takes it back": {func(s *state) {
			*s.ensure("T", now) = turnjournal.Record{Since: now, Turn: "t1", Asked: true, Continued: 2}
			s.asked("T", said("m", "x"), now)
		}, &turnjournal.Record{Inputs: []turnjournal.Input{said("m", "x")}}},
		"a message that codex refuses": {func(s *state) {
			s.asked("T", from("1 7", said("m", "x")), now)
			s.refused("1 7", now)
		}, nil},
		"a message for a turn, refused, is the next turn's": {func(s *state) {
			s.started("T", "t1", now)
			s.asked("T", from("1 7", said("m", "x")), now)
			s.refused("1 7", now)
			s.asked("T", from("1 8", said("m", "x")), now)
			s.refused("2 8", now) // another session's
		}, &turnjournal.Record{Turn: "t1", Inputs: []turnjournal.Input{from("1 8", said("m", "x"))}}},
		"a message that codex has taken up is not refused": {func(s *state) {
			s.asked("T", from("1 7", said("m", "x")), now)
			s.started("T", "t1", now)
			s.seen("T", codexthread.Message{ClientID: "m", Content: said("m", "x").Content})
			s.refused("1 7", now)
			s.journal.Threads["T"].Inputs[0].Seen = false
		}, &turnjournal.Record{Turn: "t1", Inputs: []turnjournal.Input{from("1 7", said("m", "x"))}}},
		"a turn that waits for quota, until it has started": {func(s *state) {
			*s.ensure("T", now) = turnjournal.Record{Since: now, Turn: "t1", Quota: true}
			s.started("T", "t2", now)
		}, &turnjournal.Record{Turn: "t2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := empty()
			c.steps(s)
			if c.want != nil {
				c.want.Since = now
			}
			assert.Equal(t, c.want, s.journal.Threads["T"])
		})
	}
}

// from gives a message the request that brought it.
func from(request string, i turnjournal.Input) turnjournal.Input {
	i.Request = request
	return i
}

// What holds a thread outlives its unloading, which codex reports before it accepts a resume.
func TestHeldThreads(t *testing.T) {
	s := empty()
	s.hold("T")
	s.hold("T")
	assert.False(t, s.thread("T").subscribed, "a resume may be refused")
	s.thread("T").subscribed = true
	s.forget("T")
	assert.Equal(t, 2, s.thread("T").held)
	assert.False(t, s.thread("T").subscribed)
	s.thread("T").held -= 2
	s.forget("T")
	assert.NotContains(t, s.threads, "T")
}

// A client that leaves must stay while a thread runs, or is about to, without the manager.
func TestAlone(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		change func(*state)
		want   bool
	}{
		"nothing runs":            {func(*state) {}, false},
		"asked for":               {func(s *state) { s.asked("T", turnjournal.Input{}, now) }, true},
		"the manager is there":    {func(s *state) { s.asked("T", turnjournal.Input{}, now); s.thread("T").subscribed = true }, false},
		"a thread for a title":    {func(s *state) { s.asked("T", turnjournal.Input{}, now); s.thread("T").hidden = true }, false},
		"interrupted":             {func(s *state) { s.started("T", "1", now); s.interrupt("T", "1", now) }, false},
		"interrupted, then asked": {func(s *state) { s.interrupt("T", "1", now); s.asked("T", turnjournal.Input{}, now) }, true},
		"waits for its user":      {func(s *state) { s.ensure("T", now).Asked = true }, false},
		"a review":                {func(s *state) { s.thread("T").wanted = true }, true},
	} {
		s := empty()
		tc.change(s)
		assert.Equal(t, tc.want, s.alone(), name)
	}
}

// A turn may end while the manager is not connected: the next connection does not take it for a running one.
func TestDisconnected(t *testing.T) {
	s := empty()
	*s.thread("T") = live{subscribed: true, status: codexthread.Status{Type: "active"}}
	s.disconnected(nil)
	assert.False(t, s.thread("T").subscribed)
	assert.False(t, s.thread("T").status.Active())
}

// A missed turn without quota waits for it, as one whose end the manager has heard of.
func TestMissedTurnWithoutQuota(t *testing.T) {
	now := time.Now()
	s := empty()
	s.asked("T", turnjournal.Input{ClientID: "c1", At: now}, now)
	failed := codexthread.Turn{ID: "2", Status: "failed", Items: []codexthread.Item{{Type: "userMessage", ClientID: "c1"}}}
	require.NoError(t, json.Unmarshal([]byte(`{"error":{"message":"x","codexErrorInfo":"usageLimitExceeded"}}`), &failed))
	require.True(t, s.missed("T", failed, now))
	assert.True(t, s.wantsQuota("T", failed, remoteconfig.Always))
	assert.True(t, s.journal.Threads["T"].Quota)
}

// A turn that the account refuses for its model waits for nothing: it would be refused again at once.
func TestRefusedModelIsNoWantOfQuota(t *testing.T) {
	for _, words := range []string{
		"To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.",
		"You’ve hit your usage limit for gpt-x. Switch to another model now, or try again at 5:46 PM.",
	} {
		now := time.Now()
		s := empty()
		s.asked("T", turnjournal.Input{ClientID: "c1", At: now}, now)
		s.started("T", "2", now)
		failed := codexthread.Turn{ID: "2", Status: "failed", Error: &turnerror.Error{Message: words,
			Info: turnerror.Info{Kind: turnerror.KindUsageLimitExceeded}}}
		assert.False(t, s.wantsQuota("T", failed, remoteconfig.Always), words)
	}
}

// A turn may end before the manager is subscribed to its thread.
func TestMissedTurn(t *testing.T) {
	now := time.Now()
	message := turnjournal.Input{ClientID: "c1", Content: json.RawMessage(`[]`), At: now}
	had := codexthread.Turn{ID: "2", Status: codexthread.Completed, Items: []codexthread.Item{{Type: "userMessage", ClientID: "c1"}}}
	s := empty()
	assert.False(t, s.missed("T", had, now), "nobody asked for it")
	s.asked("T", message, now)
	assert.False(t, s.missed("T", codexthread.Turn{ID: "1"}, now), "an earlier one")
	assert.True(t, s.missed("T", had, now))
	s.ended("T", "2", now)
	assert.Empty(t, s.journal.Threads)
	s.started("T", "2", now)
	assert.Empty(t, s.journal.Threads, "it has ended")
	s.asked("T", message, now)
	assert.False(t, s.missed("T", had, now), "its end is known")
}

// Of two people who continue a turn, one does.
func TestOffers(t *testing.T) {
	s := empty()
	before := turnjournal.Record{Since: now, Turn: "t1", Asked: true, Inputs: []turnjournal.Input{said("m", "x")}}
	claim := func() turnjournal.Record {
		*s.ensure("T", now) = before.Clone()
		_, r, err := s.cutTurn("build", "T")
		assert.NoError(t, err)
		s.journal.Threads["T"].Asked = false
		_, _, err = s.cutTurn("build", "T")
		assert.ErrorIs(t, err, ErrNotCut)
		return r
	}
	s.offer("T", claim(), now.Add(1))
	assert.Equal(t, before, *s.journal.Threads["T"], "codex refused to continue: it can be repeated")

	r := claim()
	newer := said("n", "y")
	newer.At = now.Add(2)
	s.asked("T", newer, now.Add(2))
	s.offer("T", r, now.Add(1))
	assert.False(t, s.journal.Threads["T"].Asked, "its user goes on with another message")
	assert.Equal(t, []turnjournal.Input{newer}, s.journal.Threads["T"].InputsAfter(now.Add(1)))
}

func TestStale(t *testing.T) {
	s := empty()
	s.asked("refused", turnjournal.Input{At: now}, now)
	s.started("running", "t1", now)
	s.thread("running").status = codexthread.Status{Type: "active"}
	*s.ensure("asked", now) = turnjournal.Record{Since: now, Asked: true}
	s.ensure("refilled", now.Add(-time.Hour))
	s.thread("refilled").held = 1 // the manager has asked for its turn just now
	assert.Empty(t, s.stale(now.Add(settle)))
	assert.Equal(t, []string{"refused"}, s.stale(now.Add(settle+1)))
}

func TestIdle(t *testing.T) {
	const bound = time.Minute
	open := func() *state { s := empty(); s.link = &codexConn{}; return s }
	for name, c := range map[string]struct {
		change func(*state)
		want   bool
	}{
		"nobody, nothing":                 {func(*state) {}, true},
		"not open":                        {func(s *state) { s.link = nil }, false},
		"a client":                        {func(s *state) { s.clients[1] = Client{} }, false},
		"a viewer":                        {func(s *state) { s.clients[1] = Client{Viewer: true} }, false},
		"a turn":                          {func(s *state) { s.started("T", "t1", now) }, false},
		"a message on its way":            {func(s *state) { s.asked("T", turnjournal.Input{}, now) }, false},
		"a thread that runs":              {func(s *state) { s.thread("T").status.Type = "active" }, false},
		"a cut turn whose user was asked": {func(s *state) { s.ensure("T", now).Asked = true }, true},
		"a turn that ended just now":      {func(s *state) { s.started("T", "t1", now); s.ended("T", "t1", now.Add(1)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := open()
			c.change(s)
			assert.Equal(t, c.want, idle(s, bound, now.Add(bound)))
			assert.False(t, idle(s, 0, now.Add(time.Hour)), "0 never rests")
		})
	}
}

// Calls of tools wait for clients that are attached, and for those that come back after a cut.
func TestOverdue(t *testing.T) {
	s := empty()
	s.thread("T").calls = map[string]toolCall{"1": {tool: "a", at: now}}
	assert.Empty(t, s.overdue(now.Add(toolAlone-1)))
	s.clients[1] = Client{}
	assert.Empty(t, s.overdue(now.Add(toolAttached-1)))
	delete(s.clients, 1)
	s.left = now.Add(time.Minute)
	assert.Empty(t, s.overdue(now.Add(time.Minute+toolAlone-1)))
	assert.Len(t, s.overdue(now.Add(time.Minute+toolAlone)), 1)
	assert.Empty(t, s.overdue(now.Add(time.Hour)), "answered once")
}

func TestStatus(t *testing.T) {
	s := empty()
	s.journal.Last, s.journal.Words = "T", "done"
	s.started("T", "t1", now)
	s.thread("T").waiting = now.Add(time.Second)
	s.left = now.Add(time.Minute)
	st := s.status()
	assert.Equal(t, []Turn{{Thread: "T", Since: now, WaitingSince: now.Add(time.Second), AloneSince: now.Add(time.Minute)}}, st.Turns)
	s.clients[1] = Client{User: "eve", Viewer: true}
	assert.False(t, s.status().Turns[0].AloneSince.IsZero(), "a viewer cannot answer")
	s.clients[3] = Client{User: "alice", Program: Page + " 1"}
	assert.False(t, s.status().Turns[0].AloneSince.IsZero(), "an open page is no person")
	s.clients[2] = Client{User: "alice"}
	assert.True(t, s.status().Turns[0].AloneSince.IsZero())
	assert.Len(t, s.status().Attached, 3)
}

func TestCutTurn(t *testing.T) {
	s := empty()
	_, _, err := s.cutTurn("build", "")
	assert.EqualError(t, err, "no cut turn of the remote build waits to go on: codex-proxy remotes send build TEXT sends a message")
	*s.ensure("T2", now) = turnjournal.Record{Since: now, Turn: "t2", Asked: true}
	*s.ensure("T3", now) = turnjournal.Record{Since: now, Turn: "t3"}
	thread, r, err := s.cutTurn("build", "")
	assert.NoError(t, err)
	assert.Equal(t, "T2", thread)
	assert.Equal(t, "t2", r.Turn)
	_, _, err = s.cutTurn("build", "T3")
	assert.ErrorIs(t, err, ErrNotCut)
	*s.ensure("T1", now) = turnjournal.Record{Since: now, Turn: "t1", Asked: true}
	_, _, err = s.cutTurn("build", "")
	assert.EqualError(t, err, "2 threads have a turn that waits to go on: give one by --thread: T1, T2")
	thread, _, err = s.cutTurn("build", "T1")
	assert.NoError(t, err)
	assert.Equal(t, "T1", thread)
}

// The turn journal of a process whose clock was ahead is as old as the next one.
func TestTurnJournalFromTheFuture(t *testing.T) {
	ahead := now.Add(24 * time.Hour)
	s := newState(turnjournal.Journal{Threads: map[string]*turnjournal.Record{
		"T": {Since: ahead, Inputs: []turnjournal.Input{{At: ahead}, {At: now.Add(-time.Hour)}}},
	}}.Observed(now), now)
	r := s.journal.Threads["T"]
	assert.Equal(t, turnjournal.Record{Since: now, Inputs: []turnjournal.Input{{At: now}, {At: now.Add(-time.Hour)}}}, *r)
	assert.Empty(t, r.InputsAfter(now), "nothing has come since")
	assert.Equal(t, []string{"T"}, s.stale(now.Add(settle+1)))
}

// A remote starts again for another codex if it is connected and no turn runs, attached clients or not. No turn begins
// between that look and its end: codex does not get its message.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *Manager
		restarted := 0
		m, err := New(Options{State: filepath.Join(t.TempDir(), "keeper"), Restart: func() error {
			assert.False(t, m.mu.TryLock(), "no request is recorded meanwhile")
			restarted++
			return nil
		}})
		require.NoError(t, err)
		require.ErrorIs(t, m.Renew(), ErrBusy, "codex is not connected yet")
		m.update(func(s *state) {
			s.link = &codexConn{}
			s.clients[1] = Client{}
			s.asked("a", turnjournal.Input{}, time.Now())
		})
		require.ErrorIs(t, m.Renew(), ErrBusy, "a turn runs")
		m.update(func(s *state) { s.drop("a", time.Now()) })
		require.NoError(t, m.Renew())
		require.ErrorIs(t, m.Renew(), ErrBusy, "it is about to end")
		assert.Equal(t, 1, restarted)

		sent := make(chan struct{})
		go func() {
			m.RecordRequest("1", "turn/start", []byte(`{"threadId":"b","input":[]}`))
			close(sent)
		}()
		synctest.Wait()
		select {
		case <-sent:
			assert.Fail(t, "the message goes to a codex that is about to end")
		default:
		}
		m.update(func(s *state) { assert.Contains(t, s.journal.Threads, "b", "the next process sends it") })
		m.update(func(s *state) { s.disconnected(nil) })
		<-sent
	})
}
