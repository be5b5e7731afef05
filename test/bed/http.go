package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/await"
)

// Get is a GET of the proxy.
func (b *Bed) Get(path string) (int, []byte) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, Base+path, nil)
	require.NoError(b.T, err)
	res, err := b.HTTP.Do(req)
	require.NoError(b.T, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(b.T, err)
	return res.StatusCode, body
}

// Readyz asks for the report of the service.
func (b *Bed) Readyz() (int, probes.Report) {
	b.T.Helper()
	status, body := b.Get("/readyz")
	var report probes.Report
	require.NoError(b.T, json.Unmarshal(body, &report), string(body))
	return status, report
}

// Until asks /readyz until the answer satisfies ok, and returns it with the
// time at which it came.
func (b *Bed) Until(what string, ok func(status int, r probes.Report) bool) (probes.Report, time.Time) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(Bound), (await.Pace{Longest: 20 * time.Millisecond}); ; pace.Pause(b.T.Context()) {
		status, report := b.Readyz()
		if ok(status, report) {
			return report, time.Now()
		}
		require.True(b.T, time.Now().Before(deadline), "never %s: %+v", what, report)
	}
}

// Ready reports whether /readyz answered that the service is ready.
func Ready(status int, _ probes.Report) bool { return status == http.StatusOK }

// UnreadySince is for until: the first worker was not ready at some time since then. It
// may be ready again, before until has asked.
func UnreadySince(then time.Time) func(status int, r probes.Report) bool {
	return func(_ int, r probes.Report) bool {
		return slices.ContainsFunc(r.Workers[0].Transitions, func(tr probes.Transition) bool {
			return tr.At.After(then) && tr.Reason != probes.Ready
		})
	}
}

// Chat posts a raw chat completion and returns status, header and body.
func (b *Bed) Chat(stream bool, prompt string) (int, http.Header, string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, Model, stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, Base+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(b.T, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := b.HTTP.Do(req)
	require.NoError(b.T, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(b.T, err)
	return res.StatusCode, res.Header, string(answer)
}

// Client is the official SDK, pointed at the proxy.
func (b *Bed) Client() openai.Client {
	return openai.NewClient(option.WithBaseURL(Base+"/v1"), option.WithAPIKey("none"),
		option.WithHTTPClient(b.HTTP), option.WithMaxRetries(0))
}

// AskThrough is a request through the front.
func (b *Bed) AskThrough(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, Base+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := NewClient(b)
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

// ChatRequest is a request for a chat completion.
func ChatRequest(ctx context.Context, stream bool, prompt string) *http.Request {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, Model, stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, Base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// Report is the answer of /readyz.
type Report = probes.Report

// ChatBody is the body of a request for a chat completion.
func ChatBody(prompt string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"user":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`,
		Model, stream, Planted["field"], Planted["system"], Planted["prompt"]+" "+prompt)
}

// UntilStatus waits for a text of the service's status, which it sends after its report has changed.
func (b *Bed) UntilStatus(text string) {
	b.T.Helper()
	b.UntilShown(ProxyUnit, func(v map[string]string) bool { return strings.Contains(v["StatusText"], text) }, "StatusText")
}

// Outcome is the result of one request for its client.
type Outcome struct {
	Err      error
	Status   int
	Attempts string
	Body     string
	Took     time.Duration
}

// Ask posts one chat completion; it may be called from any goroutine.
func (b *Bed) Ask(ctx context.Context, stream bool, prompt string) Outcome {
	began := time.Now()
	res, err := b.Post(ctx, stream, prompt)
	if err != nil {
		return Outcome{Err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return Outcome{err, res.StatusCode, res.Header.Get("X-Codex-Attempts"), string(body), time.Since(began)}
}

// Post sends a request for a chat completion.
func (b *Bed) Post(ctx context.Context, stream bool, prompt string) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, Model, stream, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, Base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return b.HTTP.Do(req)
}

const (
	// ChatPath is the path of chat completions.
	ChatPath = "/v1/chat/completions"
	// ResponsesPath is the path of responses.
	ResponsesPath = "/v1/responses"
)
