package responses_test

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/internal/sqlite/sqlitetest"
	"codex-proxy/proxy/api/apitest"
)

// fillDisk fills the file system of a directory until room is called.
func fillDisk(t *testing.T, dir string) (room func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	return func() { require.NoError(t, os.Remove(path)) }
}

// A response whose events cannot be written fails at once for those who follow it, and for all others as soon as there
// is room. Nothing of what a client has got is lost, and none that was begun completes without its events.
func TestBackgroundOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir, room := sqlitetest.FullDisk(t)
	room()
	gate := make(chan struct{})
	path := filepath.Join(dir, "responses.db")
	large := strings.Repeat("large ", 20<<10/6)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", large, large)}, apitest.KeepingAt(t, path, 1<<30))
	next := apitest.NewRig(t, &appservertest.Server{}, apitest.KeepingAt(t, path, 1<<30))

	id, before, body := streamOf(t, r.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	for !strings.Contains(before, "first") {
		before += event(t, body)
	}
	elsewhere := bufio.NewReader(next.Resumed(t, id, -1).Body)
	room = fillDisk(t, dir)
	close(gate)
	whole := before + all(t, body)
	list := apitest.Events(t, whole)
	last := list[len(list)-1]
	assert.Equal(t, "response.failed", last.Type)
	for i, e := range list {
		assert.Equal(t, i, e.SequenceNumber)
	}
	assert.Equal(t, "server_error", last.Response.Error.Code)
	assert.Contains(t, last.Response.Error.Message, "the disk of the service is full")
	assert.Equal(t, *last.Response, r.Status(t, id, "failed"))
	assert.Equal(t, whole, all(t, r.Resumed(t, id, -1).Body))
	assert.Empty(t, all(t, r.Resumed(t, id, len(list)-1).Body))
	assert.Equal(t, "in_progress", next.Status(t, id, "in_progress").Status)
	for _, extra := range []string{inBackground, inBackground + apitest.Streaming} {
		resp := r.Responding(t, apitest.Asked(extra, `"`+large+`"`))
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.NotEmpty(t, resp.Header.Get("Retry-After"))
		assert.Equal(t, "responses_unavailable", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
	}

	room()
	assert.Equal(t, *last.Response, next.Status(t, id, "failed"))
	assert.Equal(t, whole, all(t, elsewhere))
	assert.Equal(t, whole, all(t, next.Resumed(t, id, -1).Body))
	assert.Equal(t, whole, all(t, r.Resumed(t, id, -1).Body))
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Connections.Unanswered() == 0 })
}

// A response that has completed is in progress until it is stored: no restart changes what a client has seen. A stop
// waits for it.
func TestBackgroundCompletesOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir, room := sqlitetest.FullDisk(t)
	room()
	gate := make(chan struct{})
	large := strings.Repeat("large ", 20<<10/6)
	r := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first", large)},
		apitest.KeepingAt(t, filepath.Join(dir, "responses.db"), 1<<30))
	id := r.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	r.Status(t, id, "in_progress")
	room = fillDisk(t, dir)
	close(gate)
	apitest.Await(t, r.Log.Changed, func() bool {
		return strings.Contains(r.Log.String(), "a background response that has ended cannot be stored yet")
	})
	assert.Zero(t, r.Pool.Inflight(), "its place on the worker is free")
	// The request for the status has its answer.
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Connections.Unanswered() == 1 })
	assert.Equal(t, "in_progress", r.Status(t, id, "in_progress", "completed").Status)
	room()
	got := r.Status(t, id, "completed")
	assert.Equal(t, "first"+large, got.Output[0].Content[0].Text)
}
