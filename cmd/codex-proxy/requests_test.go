package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/daemon/operators"
	"codex-proxy/daemon/recent"
	"codex-proxy/daemon/usagetable"
	"codex-proxy/workers/control"
)

// The last requests and the history outlive reloads, with a turn that ends in the process before, and a watch of them
// goes on.
func TestRequestsOutliveAReload(t *testing.T) {
	gate := make(chan struct{})
	s, stream := streamed(t, gate)
	socket := filepath.Join(s.dir, "control")
	client := control.NewClient(socket)
	refused, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader("{"))
	require.NoError(t, err)
	require.NoError(t, refused.Body.Close())
	events := make(chan operators.Event, roomy)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Follow(ctx, []string{"history", "requests"}, func(raw []byte) error {
			var e operators.Event
			err := json.Unmarshal(raw, &e)
			events <- e
			return err
		})
	}()
	first := received(t, events)
	assert.True(t, first.Whole)
	require.Len(t, first.Requests, 1)
	s.reload(t)
	close(gate)
	_, err = io.ReadAll(stream)
	require.NoError(t, err)
	var seen []recent.Request
	for len(seen) < 2 {
		if e := received(t, events); e.Whole {
			seen = e.Requests
		} else {
			seen = append(seen, e.Requests...)
		}
	}
	assert.Equal(t, 400, seen[0].Status, "of the process before")
	assert.Equal(t, "ok", seen[1].Outcome)
	assert.Positive(t, seen[1].FirstTextMS)
	cancel()
	require.NoError(t, received(t, ended))

	var history recent.History
	require.NoError(t, client.Get(t.Context(), "/v1/history", &history))
	turns, failed := 0, 0
	for _, p := range history.Points {
		turns += p.Turns
		failed += len(p.Errors)
	}
	assert.Equal(t, 1, turns)
	assert.Equal(t, 1, failed)
	var all recent.Requests
	require.NoError(t, json.Unmarshal([]byte(try(t, "requests", "--json", "--socket", socket).stdout), &all))
	assert.Equal(t, seen, all.Requests)
	table := try(t, "requests", "--failed", "--socket", socket).stdout
	assert.Equal(t, 2, strings.Count(table, "\n"), table)
	assert.Contains(t, table, all.Requests[0].ID)
	var usage usagetable.Table
	err = client.Get(t.Context(), "/v1/usage?by=hour,key", &usage)
	assert.EqualError(t, err, "usage is not written, as the service has no state directory")
	err = client.Get(t.Context(), "/v1/usage?by=moon", &usage)
	assert.EqualError(t, err, `"moon" is none of hour, day, key, model, account`)
}

func TestKeysListAsJSON(t *testing.T) {
	dir := shortDir(t)
	file, socket := filepath.Join(dir, "api-keys"), filepath.Join(dir, "socket")
	keys := func(words ...string) result {
		return try(t, append(append([]string{"keys"}, words...), "--file", file, "--socket", socket)...)
	}
	secret := strings.TrimSpace(keys("add", "alice", "--tokens-per-day=100", "--models=gpt-5,mini").stdout)
	assert.JSONEq(t, `{"count":1,"file":"`+file+`","keys":[{"name":"alice",
		"limits":{"tokens_per_day":100,"models":["gpt-5","mini"]}}]}`, keys("list", "--json").stdout)
	s := serving(t, "control_socket="+socket, "api_keys="+file)
	s.worker(t, &appservertest.Server{})
	s.note(t, "READY=1")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	hash := strings.Fields(strings.Split(string(text), "\n")[1])[1]
	for range 2 {
		out := keys("list", "--json").stdout
		assert.Contains(t, out, `"used":{"tokens_per_day":0,"concurrent":0}`)
		assert.NotContains(t, out, hash)
		assert.NotContains(t, out, secret)
		assert.NotContains(t, out, "digest")
	}
}
