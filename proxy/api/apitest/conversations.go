package apitest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Talk creates a conversation and returns its path and its id.
func (r *Rig) Talk(t testing.TB, body string, header ...string) (path, id string) {
	t.Helper()
	resp := r.Do(t, http.MethodPost, "/v1/conversations", body, header...)
	answer := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	id = Read[struct{ ID string }](t, answer).ID
	return "/v1/conversations/" + id, id
}

// SeenList is a list of items.
type SeenList struct {
	Object  string
	Data    []SeenItem
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// Words are the texts of the messages in a conversation, from the first to the last, and the types of other items.
func (r *Rig) Words(t testing.TB, path string, header ...string) (all []string) {
	t.Helper()
	resp := r.Do(t, http.MethodGet, path+"/items?order=asc&limit=100", "", header...)
	answer := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	for _, item := range Read[SeenList](t, answer).Data {
		if item.Type != "message" {
			all = append(all, item.Type)
			continue
		}
		all = append(all, item.Content[0].Text)
	}
	return all
}
