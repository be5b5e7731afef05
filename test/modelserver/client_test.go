package modelserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client speaks to the server as codex does, with a connection of its own for each request.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ask posts a turn of one user message.
func ask(ctx context.Context, t *testing.T, s *Server, model, text string) *http.Response {
	t.Helper()
	resp, err := post(ctx, s, model, text)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func post(ctx context.Context, s *Server, model, text string) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "input": []any{
		map[string]any{"type": "message", "role": "user",
			"content": []any{map[string]any{"type": "input_text", "text": text}}}}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/v1/responses",
		strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// event is one of a stream, as far as the tests look.
type event struct {
	Type     string
	Delta    string
	Item     struct{ Type, Name, Arguments string }
	Response struct {
		Status string
		Error  struct{ Code, Message string }
		Usage  struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
		IncompleteDetails struct{ Reason string } `json:"incomplete_details"`
	}
}

// events reads a stream to its end. The error is nil after a clean end.
func events(body io.Reader) (list []event, err error) {
	lines := bufio.NewReader(body)
	for {
		e, err := next(lines)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
}

func next(lines *bufio.Reader) (e event, err error) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return e, json.Unmarshal([]byte(data), &e)
		}
	}
}

func text(list []event) string {
	var b strings.Builder
	for _, e := range list {
		if e.Type == "response.output_text.delta" {
			b.WriteString(e.Delta)
		}
	}
	return b.String()
}
