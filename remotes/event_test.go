package remotes

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func logged(t *testing.T, o Options) (*Manager, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o.Name, o.State = "build", filepath.Join(t.TempDir(), "keeper")
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	m, err := New(o)
	require.NoError(t, err)
	return m, &log
}

// Each change is one entry, with the fields by which people look for it, and without words of the model.
func TestEventsInTheJournal(t *testing.T) {
	var passed []Event
	m, log := logged(t, Options{Notify: func(e Event) { passed = append(passed, e) }})
	detach := m.Attach(Client{User: "alice"})
	m.update(func(s *state) { s.thread("t1").waiting = time.Now() })
	m.announce()
	detach()
	detach()
	m.announce()
	m.emit(Event{Kind: TurnEnded, Thread: "t1", Turn: "2", Status: "completed", Detail: "secret words"})
	m.emitKind(Event{Thread: "t1", Turn: "3"}, Cut)
	m.emitKind(Event{Thread: "t1", Turn: "3"}, LimitReached)
	assert.Equal(t, []string{
		`level=INFO msg="attached to a remote" remote=build user=alice viewer=false`,
		`level=INFO msg="detached from a remote" remote=build user=alice viewer=false`,
		`level=WARN msg="a turn waits for a person, and nobody is there" remote=build thread_id=t1 remedy="codex-proxy attach build"`,
		`level=INFO msg="a turn of a remote has ended" remote=build thread_id=t1 turn_id=2 status=completed alone=true`,
		`level=WARN msg="the end of codex has cut a turn" remote=build thread_id=t1 turn_id=3`,
		`level=ERROR msg="a cut turn is given up" remote=build thread_id=t1 turn_id=3 limit=3`,
	}, strings.Split(strings.TrimSpace(log.String()), "\n"))
	require.Len(t, passed, 6)
	assert.Equal(t, []bool{false, true, true}, []bool{passed[0].Alone, passed[2].Alone, passed[3].Alone})
	assert.Equal(t, "secret words", passed[3].Detail, "[notify] has them")
}

// A page that is open while nobody looks keeps no alert from a person.
func TestPageIsNoPerson(t *testing.T) {
	m, log := logged(t, Options{})
	detach := m.Attach(Client{User: "alice", Program: Page + " 0.2.0"})
	m.update(func(s *state) { s.thread("t1").waiting = time.Now() })
	m.announce()
	assert.Contains(t, log.String(), "a turn waits for a person, and nobody is there")
	var left time.Time
	m.update(func(s *state) { left = s.left })
	detach()
	m.update(func(s *state) { assert.Equal(t, left, s.left, "it waits since before") })
}

// Every kind is logged, but the one that is logged with its error.
func TestEveryKindIsLogged(t *testing.T) {
	for _, kind := range []EventKind{Attached, Detached, Cut, Continued, Asked, Left, LimitReached, Redelivered, TurnEnded,
		Waiting, ToolAnswered} {
		m, log := logged(t, Options{})
		m.emit(Event{Kind: kind})
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), kind)
	}
	m, log := logged(t, Options{})
	m.emit(Event{Kind: Lost})
	assert.Empty(t, log.String())
}

// A remote that stops soon says when, so that no question starts it again.
func TestRestsAt(t *testing.T) {
	m, _ := logged(t, Options{IdleStop: time.Minute})
	assert.Zero(t, m.Status().RestsAt, "codex is not ready")
	var since time.Time
	m.update(func(s *state) { s.link, since = &codexConn{}, s.since })
	assert.Equal(t, since.Add(time.Minute), m.Status().RestsAt)
	detach := m.Attach(Client{User: "alice"})
	assert.Zero(t, m.Status().RestsAt, "somebody is attached")
	detach()
	assert.True(t, m.Status().RestsAt.After(since.Add(time.Minute)))
}

// An unknown request is logged once, under a name of codex alone, and within bounds that viewers do not exhaust.
func TestUnknown(t *testing.T) {
	m, log := logged(t, Options{})
	m.update(func(s *state) { s.version = "0.999.0" })
	for range 2 {
		assert.Equal(t, "0.999.0", m.Unknown("thread/new/list", false))
	}
	for _, text := range []string{"", "/", "a//b", "a b", "a\nlevel=ERROR", "\x1b[2J", strings.Repeat("a", 65), strings.Repeat("a/", 9) + "a"} {
		m.Unknown(text, false)
	}
	assert.Equal(t, `level=WARN msg="a client sent a request that is not known here" remote=build method=thread/new/list codex=0.999.0`+
		"\n", log.String())
	for n := range 2 * unknownLimit {
		m.Unknown(fmt.Sprint("viewers/", n), true)
	}
	assert.Len(t, m.Status().Unknown, unknownLimit/2)
	for n := range 2 * unknownLimit {
		m.Unknown(fmt.Sprint("owners/", n), false)
	}
	assert.Len(t, m.Status().Unknown, unknownLimit)
	assert.Equal(t, unknownLimit, strings.Count(log.String(), "\n"))
}

// A client that loads a thread anew is its first one again.
func TestUnloaded(t *testing.T) {
	var unloaded []string
	m, err := New(Options{State: t.TempDir(), Unloaded: func(thread string) { unloaded = append(unloaded, thread) }})
	require.NoError(t, err)
	for _, method := range []string{"thread/closed", "thread/archived", "item/completed"} {
		reports{&codexConn{Manager: m}}.handle(t.Context(), message{method: method, params: []byte(`{"threadId":"` + method + `"}`)})
	}
	assert.Equal(t, []string{"thread/closed", "thread/archived"}, unloaded)
}
