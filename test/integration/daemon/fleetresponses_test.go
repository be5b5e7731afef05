package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// sharer has the stored responses of two hosts, with the key of ann.
type sharer struct {
	*testing.T
	first, second *bed.Bed // the database is on the first
	bridge        *machine.Bridge
	ann, bob      string // keys
}

// asked sends a request with a key.
func (s *sharer) asked(b *bed.Bed, key, method, path, body string) (status int, answer string) {
	s.Helper()
	res, answer := b.AskThrough(s.T, method, path, body, "Authorization", "Bearer "+key)
	return res.StatusCode, answer
}

// created is the response to an input; more goes in front.
func (s *sharer) created(b *bed.Bed, more, input string) (p bed.Polled) {
	s.Helper()
	status, answer := s.asked(b, s.ann, http.MethodPost, "/v1/responses",
		fmt.Sprintf(`{%s"model":%q,"input":%q}`, more, bed.Model, input))
	require.Equal(s, http.StatusOK, status, answer)
	require.NoError(s, json.Unmarshal([]byte(answer), &p))
	return p
}

func (s *sharer) status(b *bed.Bed, key, id string) int {
	s.Helper()
	status, _ := s.asked(b, key, http.MethodGet, "/v1/responses/"+id, "")
	return status
}

func (s *sharer) until(b *bed.Bed, what string, ids ...string) {
	s.Helper()
	began := time.Now()
	for _, id := range ids {
		await.True(s.T, func() bool { return s.status(b, s.ann, id) == http.StatusOK }, bed.Bound, "%s: %s", what, id)
	}
	s.Logf("%s: %d responses there after %v", what, len(ids), time.Since(began))
}

// everywhere: a turn is continued, read and deleted on the other host, with the same key alone; and so is a conversation.
func (s *sharer) everywhere() {
	one := s.created(s.first, "", "hello [[text first]]")
	assert.Equal(s, http.StatusOK, s.status(s.second, s.ann, one.ID))
	assert.Equal(s, http.StatusNotFound, s.status(s.second, s.bob, one.ID), "of another key")
	two := s.created(s.second, `"previous_response_id":"`+one.ID+`",`, "and then [[text second]]")
	_, answer := s.asked(s.first, s.ann, http.MethodGet, "/v1/responses/"+two.ID+"/input_items?order=asc", "")
	assert.Contains(s, answer, "hello [[text first]]")
	assert.Contains(s, answer, "and then [[text second]]")
	status, answer := s.asked(s.second, s.bob, http.MethodPost, "/v1/responses",
		fmt.Sprintf(`{"model":%q,"input":"x","previous_response_id":%q}`, bed.Model, two.ID))
	assert.Equal(s, http.StatusBadRequest, status)
	assert.Contains(s, answer, "previous_response_not_found")

	status, answer = s.asked(s.first, s.ann, http.MethodPost, "/v1/conversations",
		`{"items":[{"type":"message","role":"user","content":"I am Ann"}]}`)
	require.Equal(s, http.StatusOK, status, answer)
	var conversation struct{ ID string }
	require.NoError(s, json.Unmarshal([]byte(answer), &conversation))
	s.created(s.second, `"conversation":"`+conversation.ID+`",`, "who am I? [[text Ann]]")
	path := "/v1/conversations/" + conversation.ID
	_, answer = s.asked(s.first, s.ann, http.MethodGet, path+"/items?order=asc", "")
	assert.Regexp(s, `(?s)I am Ann.*who am I.*Ann`, answer)
	status, _ = s.asked(s.second, s.bob, http.MethodGet, path, "")
	assert.Equal(s, http.StatusNotFound, status)
	status, _ = s.asked(s.second, s.ann, http.MethodDelete, path, "")
	assert.Equal(s, http.StatusOK, status)
	status, _ = s.asked(s.first, s.ann, http.MethodGet, path, "")
	assert.Equal(s, http.StatusNotFound, status)
	status, _ = s.asked(s.second, s.ann, http.MethodDelete, "/v1/responses/"+two.ID, "")
	assert.Equal(s, http.StatusOK, status)
	assert.Equal(s, http.StatusNotFound, s.status(s.first, s.ann, two.ID))
}

// cutOff is called while the second host is without the database; it returns what was stored meanwhile.
func (s *sharer) cutOff(before string) (ids []string) {
	one := s.created(s.second, "", "alone [[text fine]]")
	two := s.created(s.second, `"previous_response_id":"`+one.ID+`",`, "still alone [[text fine]]")
	status, answer := s.asked(s.second, s.ann, http.MethodGet, "/v1/responses/"+before, "")
	assert.Equal(s, http.StatusServiceUnavailable, status, "it is not known to be missing: %s", answer)
	return []string{one.ID, two.ID}
}

// faults stores turns on both hosts while the database restarts and stands still: each that a client has is there.
func (s *sharer) faults() {
	var ids []string
	turn := func() {
		for i, b := range []*bed.Bed{s.first, s.second} {
			began := time.Now()
			ids = append(ids, s.created(b, "", "a turn [[text fine]]").ID)
			s.Logf("turn on host %d: %v", i+1, time.Since(began))
		}
	}
	turn()
	for _, signal := range []string{"STOP", "CONT"} {
		s.first.MustRun(s.T, "systemctl", "kill", "--signal="+signal, "postgresql@*.service")
		turn()
	}
	s.first.MustRun(s.T, "systemctl", "restart", "--no-block", "postgresql")
	for range 3 {
		turn()
	}
	s.until(s.first, "after faults of the database, on the first", ids...)
	s.until(s.second, "after faults of the database, on the second", ids...)
}

// lostHost loses the second host while it runs a background response: on the first, its stream ends as failed, behind
// all events that a client has.
func (s *sharer) lostHost() {
	ctx, cancel := context.WithTimeout(s.Context(), 2*bed.Bound)
	defer cancel()
	stream := func(b *bed.Bed, method, path, body string, stop func(bed.WireEvent) bool) []bed.WireEvent {
		s.Helper()
		req, err := http.NewRequestWithContext(ctx, method, bed.Base+"/v1/responses"+path, strings.NewReader(body))
		require.NoError(s, err)
		req.Header.Set("Authorization", "Bearer "+s.ann)
		req.Header.Set("Content-Type", "application/json")
		res, err := b.HTTP.Do(req)
		require.NoError(s, err)
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			answer, _ := io.ReadAll(res.Body)
			require.Fail(s, "no stream", string(answer))
		}
		events, err := bed.ReadEvents(res.Body, stop)
		require.NoError(s, err)
		return events
	}
	begun := stream(s.second, http.MethodPost, "", bed.InBackground(true, "[[text one]] [[silence]]"),
		func(e bed.WireEvent) bool { return e.Kind == "response.in_progress" })
	id, last := begun[0].Answer.ID, begun[len(begun)-1]
	assert.Equal(s, http.StatusOK, s.status(s.first, s.ann, id), "it is in progress")
	began := time.Now()
	s.bridge.Cut(s.T, s.second.Machine)
	end := stream(s.first, http.MethodGet, fmt.Sprintf("/%s?stream=true&starting_after=%d", id, last.Number), "",
		bed.ToTheEnd)
	s.Logf("a background response of a lost host: failed after %v", time.Since(began))
	require.Len(s, end, 1)
	assert.Equal(s, "response.failed", end[0].Kind)
	assert.Greater(s, end[0].Number, last.Number)
	s.bridge.Heal(s.T, s.second.Machine)
	await.True(s.T, func() bool {
		status, answer := s.asked(s.second, s.ann, http.MethodPost, "/v1/responses/"+id+"/cancel", "")
		return status == http.StatusBadRequest && strings.Contains(answer, "failed") ||
			status == http.StatusNotFound
	}, bed.Bound, "its host finds it ended")
}
