package apitest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Status gets a response until it has one of the statuses, and returns it.
func (r *Rig) Status(t testing.TB, id string, statuses ...string) Seen {
	t.Helper()
	var got Seen
	Await(t, Tick(t), func() bool {
		resp := r.Do(t, http.MethodGet, "/v1/responses/"+id, "")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		got = Read[Seen](t, Text(t, resp))
		for _, s := range statuses {
			if got.Status == s {
				return true
			}
		}
		return false
	})
	return got
}

// Resumed is the stream of a response after an event; -1: all of it.
func (r *Rig) Resumed(t testing.TB, id string, after int) *http.Response {
	t.Helper()
	query := "?stream=true&include_obfuscation=false"
	if after >= 0 {
		query += fmt.Sprintf("&starting_after=%d", after)
	}
	resp := r.Do(t, http.MethodGet, "/v1/responses/"+id+query, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	return resp
}
