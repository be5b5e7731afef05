package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/session"
)

// open opens a stream of changes.
func (b *bed) open(query string) *http.Response {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://codex-runner/v1/watch?"+query, nil)
	require.NoError(b.t, err)
	answer, err := b.client.Do(request)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// Each change of a session is one line with that session alone.
func TestWatch(t *testing.T) {
	b := newBed(t)
	s := b.create(truly)
	u := b.started()
	answer := b.open("follow=true")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	stream := json.NewDecoder(answer.Body)
	until := func(what string, ok func(wire.Watched) bool) {
		t.Helper()
		for {
			var w wire.Watched
			require.NoError(t, stream.Decode(&w), what)
			if ok(w) {
				return
			}
		}
	}
	until("all at first", func(w wire.Watched) bool { return w.Whole && w.Status != nil && len(w.Sessions) == 1 })
	other := b.create(`{"commands":[{"args":["other"]}]}`)
	until("a new one", func(w wire.Watched) bool { return !w.Whole && len(w.Sessions) == 1 && w.Sessions[0].ID == other.ID })
	u.End(&session.Result{Exited: true})
	until("its end", func(w wire.Watched) bool {
		for _, one := range w.Sessions {
			if one.ID == s.ID && one.Commands[0].Outcome != nil {
				return true
			}
		}
		return false
	})
	b.started().End(&session.Result{Exited: true})
	status, text := b.send("POST", "/v1/sessions/"+s.ID+"/cancel", `{}`)
	require.Equal(t, http.StatusOK, status, text)
	status, text = b.send("POST", "/v1/prune", `{"older_than":"1ns"}`)
	require.Equal(t, http.StatusOK, status, text)
	until("it is removed", func(w wire.Watched) bool { return len(w.Removed) == 1 && w.Removed[0] == s.ID })
	require.NoError(t, b.server.Shutdown(t.Context()))
	_, err := io.ReadAll(answer.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "the end of the service is not the end of the sessions")
}

// Whatever users give to their commands, a line and the memory of a watcher stay small.
func TestWatchedTextsAreShort(t *testing.T) {
	b := newBed(t)
	b.create(truly)
	long := strings.Repeat("<", 1<<20)
	s := b.create(`{"commands":[{"args":["echo","a","` + long + `","b"]}]}`)
	answer := b.open("")
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Less(t, len(text), 32<<10)
	var w wire.Watched
	require.NoError(t, json.Unmarshal(text, &w))
	args := w.Sessions[0].Commands[0].Args
	require.Len(t, args, 3)
	assert.Equal(t, "echo a "+strings.Repeat("<", 505)+"…", strings.Join(args, " "))
	_, whole := b.send("GET", "/v1/sessions/"+s.ID, "")
	assert.Greater(t, len(whole), len(long), "the session has them whole")
}

func TestWatchersAreBounded(t *testing.T) {
	b := newBed(t)
	for range 8 {
		answer := b.open("follow=true")
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&wire.Watched{}))
	}
	assert.Equal(t, http.StatusTooManyRequests, b.open("").StatusCode)
	assert.Equal(t, http.StatusTooManyRequests, b.open("follow=true").StatusCode)
	const stranger = 4_000_000_000
	status, _ := b.as(stranger, http.MethodGet, "/v1/watch", "", "")
	assert.Equal(t, http.StatusOK, status, "another user has places of its own")
}

func TestWatchOfAnother(t *testing.T) {
	b := newBed(t)
	b.create(truly)
	const stranger = 4_000_000_000
	status, f := b.as(stranger, http.MethodGet, "/v1/watch?all=true", "", "")
	assert.Equal(t, http.StatusForbidden, status, fmt.Sprint(f))
	status, _ = b.as(stranger, http.MethodGet, "/v1/watch", "", "")
	assert.Equal(t, http.StatusOK, status)
}
