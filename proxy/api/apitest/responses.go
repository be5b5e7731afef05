package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/stored"
)

// Keeping gives the server a store, of 16 MiB or as many bytes.
func Keeping(t testing.TB, bytes ...int64) func(*Options) {
	t.Helper()
	return KeepingAt(t, filepath.Join(t.TempDir(), "responses.db"), append(bytes, 1<<24)[0])
}

// KeepingAt keeps responses in the database at path, of at most size bytes.
func KeepingAt(t testing.TB, path string, size int64) func(*Options) {
	t.Helper()
	store := NewStore(path, size)
	require.NoError(t, store.Open(t.Context()))
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	return func(o *Options) { o.Responses = store }
}

// NewStore is a store at path, not yet open.
func NewStore(path string, size int64) *stored.File {
	return stored.New(stored.Settings{
		Path: path, Limits: stored.Limits{Retention: time.Hour, Bytes: size, Count: 1000},
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
}

// Asked is a request for a response; extra goes in front.
func Asked(extra, input string) string {
	return fmt.Sprintf(`{%s"model":"demo","input":%s}`, extra, input)
}

// Responding posts to /v1/responses.
func (r *Rig) Responding(t testing.TB, body string, header ...string) *http.Response {
	t.Helper()
	return r.Do(t, http.MethodPost, "/v1/responses", body, header...)
}

// Seen is what tests look at of a response or an event.
type Seen struct {
	ID             string
	Type           string
	Status         any // a number in errors
	SequenceNumber int `json:"sequence_number"`
	Delta          string
	Response       *Seen
	Output         []SeenItem
	Error          *struct{ Code, Message string }
	Previous       *string `json:"previous_response_id"`
	Conversation   *struct{ ID string }
	Usage          *struct {
		Total int `json:"total_tokens"`
	}
}

// SeenItem is what tests look at of an item.
type SeenItem struct {
	ID, Type, Status, Name, Input string
	Arguments                     any
	CallID                        string `json:"call_id"`
	Encrypted                     string `json:"encrypted_content"`
	Content                       []struct{ Text string }
}

// Read decodes JSON.
func Read[T any](t testing.TB, data string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(data), &v), data)
	return v
}

// Whole posts a request and returns the response.
func (r *Rig) Whole(t testing.TB, body string, header ...string) Seen {
	t.Helper()
	resp := r.Responding(t, body, header...)
	answer := Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	return Read[Seen](t, answer)
}

// Events reads a stream of named events.
func Events(t testing.TB, stream string) (list []Seen) {
	t.Helper()
	for frame := range strings.SplitSeq(stream, "\n\n") {
		name, data, ok := strings.Cut(frame, "\ndata: ")
		if !ok {
			require.True(t, frame == "" || frame[0] == ':', "%q", frame)
			continue
		}
		e := Read[Seen](t, data)
		require.Equal(t, "event: "+e.Type, name)
		require.Equal(t, len(list), e.SequenceNumber)
		list = append(list, e)
	}
	return list
}

// Thinker is a worker that thinks and answers, in pieces.
func Thinker(_ context.Context, turn *appservertest.Turn) error {
	turn.Reasoning("hm", "m")
	turn.Text("a", "nswer to "+turn.Request.Prompt())
	turn.EndResponse(appservertest.Usage{Input: 10, Output: 3, Reasoning: 2})
	return nil
}

// Telling is a thinker that says what it was asked.
func Telling(given chan<- appservertest.Request) func(context.Context, *appservertest.Turn) error {
	return func(ctx context.Context, turn *appservertest.Turn) error {
		given <- turn.Request
		return Thinker(ctx, turn)
	}
}
