// Package clients runs Go's clients against an installed service, with the calls that
// their users rely on. It is a module of its own, so that the program does not depend
// on them. test/integration builds it and runs it inside a machine; a prompt holds the
// answer of the model endpoint, see package modelserver.
package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	model    = "gpt-test"
	baseURL  = "http://127.0.0.1:8787/v1"
	endpoint = "http://127.0.0.1:18080"

	// pixel is a PNG of one pixel.
	pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

	// greeting is the answer to a prompt without one.
	greeting = "hello from the model server"
)

// bound is the longest that any call may take.
const bound = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv("CODEX_PROXY_KEY") == "" {
		fmt.Println("CODEX_PROXY_KEY is not set; TestGoClients of test/integration runs these tests")
		os.Exit(1)
	}
	http.DefaultClient.Timeout = bound
	os.Exit(m.Run())
}

// item is one item of the input of a turn.
type item struct {
	Type, Role, Arguments string
	CallID                string          `json:"call_id"`
	Content, Output       json.RawMessage `json:",omitempty"`
}

// turn is a request that the model endpoint received.
type turn struct {
	Method string
	Cut    time.Time
	Body   struct {
		Instructions string
		Input        []item
		Text         struct{ Format json.RawMessage }
		Raw          json.RawMessage
	}
}

// requests asks the model endpoint for its requests, once cut of them were cut.
func requests(t *testing.T, cut int) (all []turn) {
	t.Helper()
	res, err := http.Get(fmt.Sprintf("%s/_requests?cut=%d", endpoint, cut))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode, "the model endpoint waited in vain for %d cut requests", cut)
	var log struct{ Requests []turn }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&log))
	return log.Requests
}

// turns are the turns whose input has the word, oldest first.
func turns(t *testing.T, word string) (with []turn) {
	t.Helper()
	for _, r := range requests(t, 0) {
		if r.Method == http.MethodPost && strings.Contains(string(r.Body.Raw), word) {
			with = append(with, r)
		}
	}
	return with
}

// cutting returns a function that waits until one more request was cut.
func cutting(t *testing.T) (await func()) {
	t.Helper()
	cut := 0
	for _, r := range requests(t, 0) {
		if !r.Cut.IsZero() {
			cut++
		}
	}
	return func() { requests(t, cut+1) }
}

// script queues the answers to the next turns.
func script(t *testing.T, answers ...[]string) {
	t.Helper()
	var list []map[string]any
	for _, steps := range answers {
		list = append(list, map[string]any{"steps": steps})
	}
	data, err := json.Marshal(list)
	require.NoError(t, err)
	res, err := http.Post(endpoint+"/_scripts", "application/json", bytes.NewReader(data))
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// sunny is the result of the tool for a city.
func sunny(t *testing.T, arguments string) string {
	t.Helper()
	var of struct{ City string }
	require.NoError(t, json.Unmarshal([]byte(arguments), &of))
	return "sunny in " + of.City
}

// bothCalls is a prompt that the model answers with two calls at once.
const bothCalls = ` [[call get_weather {"city":"Paris"}]] [[call get_weather {"city":"Rome"}]]`

// assertResults asserts that the model received both calls, each with its result.
func assertResults(t *testing.T, word string) {
	t.Helper()
	all := turns(t, word)
	require.Len(t, all, 2)
	results := map[string]string{}
	for _, i := range all[1].Body.Input {
		switch i.Type {
		case "function_call":
			results[i.CallID] = sunny(t, i.Arguments)
		case "function_call_output":
			assert.Contains(t, string(i.Output), results[i.CallID])
			delete(results, i.CallID)
		}
	}
	assert.Empty(t, results, "calls without a result")
	assert.Contains(t, string(all[1].Body.Raw), "sunny in Rome")
}

// City is the answer of the cases with a schema.
type City struct {
	City       string `json:"city"`
	Population int    `json:"population"`
}

var rome = City{"Rome", 2800000}

const romeJSON = `{"city":"Rome","population":2800000}`
