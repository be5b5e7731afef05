package remotes

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"codex-proxy/remotes/codexthread"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client can start a turn of a thread before the manager has read what codex says of the thread. What a TUI asks in a
// hidden thread is not recorded, else the message would go to a thread of its own after a cut, and attach would go
// there.
func TestTurnsOfHiddenThreadsAreNotRecorded(t *testing.T) {
	for _, hidden := range []bool{true, false} {
		m, err := New(Options{State: t.TempDir()})
		require.NoError(t, err)
		thread := newThread()
		passed := make(chan struct{})
		go func() {
			defer close(passed)
			m.RecordRequest("", "turn/start", json.RawMessage(`{"threadId":"`+thread+`","input":[{"type":"text","text":"a title, please"}]}`))
		}()
		m.update(func(s *state) { s.describe(codexthread.Thread{ID: thread, Ephemeral: hidden}) })
		m.update(func(s *state) { s.written(thread) })
		<-passed
		m.update(func(s *state) {
			assert.Equal(t, hidden, s.journal.Threads[thread] == nil)
			assert.Equal(t, hidden, s.journal.Last == "")
		})
	}
}

// An item for a thread whose turn runs makes codex ask the model once more: the item that makes codex write the
// thread's file comes before the first turn, or not at all.
func TestAFirstTurnWaitsForTheFileOfItsThread(t *testing.T) {
	for name, c := range map[string]struct {
		described, answered bool
		took                time.Duration
		write               bool
	}{
		"written":     {true, true, 0, true},
		"no answer":   {true, false, writing, true},
		"undescribed": {false, false, introduction, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := New(Options{State: t.TempDir()})
				require.NoError(t, err)
				thread, began, write := newThread(), time.Now(), false
				if c.described {
					m.update(func(s *state) { write = s.describe(codexthread.Thread{ID: thread}) })
				}
				passed := make(chan struct{})
				go func() {
					defer close(passed)
					m.RecordRequest("", "turn/start", json.RawMessage(`{"threadId":"`+thread+`","input":[]}`))
				}()
				synctest.Wait()
				m.update(func(s *state) { assert.Nil(t, s.journal.Threads[thread], "the message waits") })
				if c.answered {
					m.update(func(s *state) { s.written(thread) })
				}
				<-passed
				assert.Equal(t, c.took, time.Since(began))
				if !c.described { // it comes late
					m.update(func(s *state) { write = s.describe(codexthread.Thread{ID: thread}) })
				}
				assert.Equal(t, c.write, write)
				m.update(func(s *state) { assert.NotNil(t, s.journal.Threads[thread]) })
			})
		})
	}
}

func newThread() string {
	ms := fmt.Sprintf("%012x", time.Now().Add(time.Second).UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-7bb3-99d3-1d87d5141cce"
}

func TestCreatedAfter(t *testing.T) {
	began := time.UnixMilli(0x01a2097b86f2)
	for id, want := range map[string]bool{
		"01a2097b-86f2-7f12-8833-cc82bdd4a36a": true,
		"01a2097b-86f1-7f12-8833-cc82bdd4a36a": false,
		"01a2097c-0000-7f12-8833-cc82bdd4a36a": true,
		"T":                                    false,
		"a name of a thread":                   false,
		"":                                     false,
	} {
		assert.Equal(t, want, createdAfter(id, began), id)
	}
}
