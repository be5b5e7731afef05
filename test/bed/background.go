package bed

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// WireEvent is an event of a streamed response, as it came.
type WireEvent struct {
	raw    string // its lines and the empty one
	Kind   string
	Number int
	Delta  string
	Answer Polled // of an event with a response
}

// Ends reports whether the event is the last of a response.
func (e WireEvent) Ends() bool {
	return e.Kind == "response.completed" || e.Kind == "response.failed" || e.Kind == "response.incomplete"
}

// Polled is a response as a poll has it.
type Polled struct {
	ID     string
	Status string
	Error  *struct{ Code, Message string }
	Output []struct {
		Content []struct{ Text string }
	}
}

// Text is the text of a response.
func (p Polled) Text() (text string) {
	for _, item := range p.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// ReadEvents reads a stream, without its comments, to its end or until the event of which stop reports true.
func ReadEvents(from io.Reader, stop func(WireEvent) bool) (list []WireEvent, err error) {
	lines := bufio.NewReader(from)
	var e WireEvent
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if err == io.EOF && e.raw == "" {
				err = nil
			}
			return list, err
		}
		if strings.HasPrefix(line, ":") || line == "\n" && e.raw == "" {
			continue
		}
		e.raw += line
		if data, is := strings.CutPrefix(line, "data: "); is {
			if err := e.read(data); err != nil {
				return list, err
			}
		}
		if line != "\n" {
			continue
		}
		list = append(list, e)
		if stop(e) {
			return list, nil
		}
		e = WireEvent{}
	}
}

func (e *WireEvent) read(data string) error {
	var fields struct {
		Type     string
		Number   *int `json:"sequence_number"`
		Delta    string
		Response Polled
	}
	if err := json.Unmarshal([]byte(data), &fields); err != nil {
		return fmt.Errorf("%q: %w", data, err)
	}
	if fields.Number == nil {
		return fmt.Errorf("an event without a number: %s", data)
	}
	e.Kind, e.Number, e.Delta, e.Answer = fields.Type, *fields.Number, fields.Delta, fields.Response
	return nil
}

// ToTheEnd reads on to the end of a stream.
func ToTheEnd(WireEvent) bool { return false }

// Raw is the bytes of events.
func Raw(events []WireEvent) string {
	var text strings.Builder
	for _, e := range events {
		text.WriteString(e.raw)
	}
	return text.String()
}

// Call sends a request to the Responses endpoint, on a new connection: a kept one belongs to the process before a reload.
func (b *Bed) Call(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, Base+"/v1/responses"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	return b.HTTP.Do(req)
}

// Called is call for a request whose answer is JSON.
func (b *Bed) Called(method, path, body string) (status int, answer []byte) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), Bound)
	defer cancel()
	res, err := b.Call(ctx, method, path, body)
	require.NoError(b.T, err)
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	require.NoError(b.T, err)
	return res.StatusCode, answer
}

// Response is called for a request that has a response for its answer.
func (b *Bed) Response(method, path, body string) (p Polled) {
	b.T.Helper()
	status, answer := b.Called(method, path, body)
	require.Equal(b.T, http.StatusOK, status, string(answer))
	require.NoError(b.T, json.Unmarshal(answer, &p), string(answer))
	return p
}

// InBackground is the body of a request for a response in the background.
func InBackground(stream bool, prompt string) string {
	return fmt.Sprintf(`{"model":%q,"background":true,"stream":%t,"input":%q}`, Model, stream, prompt)
}

// Poll is a GET of a response.
func (b *Bed) Poll(id string) Polled {
	b.T.Helper()
	return b.Response(http.MethodGet, "/"+id, "")
}

// Resume continues a stream behind an event, or reads it from its beginning, after -1.
func (b *Bed) Resume(ctx context.Context, id string, after int, stop func(WireEvent) bool) ([]WireEvent, error) {
	path := "/" + id + "?stream=true"
	if after >= 0 {
		path += fmt.Sprintf("&starting_after=%d", after)
	}
	res, err := b.Call(ctx, http.MethodGet, path, "")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(res.Body)
		return nil, fmt.Errorf("%s: %s", res.Status, answer)
	}
	return ReadEvents(res.Body, stop)
}

// AssertWhole asserts that a list has every event of a response once, and returns the last.
func AssertWhole(t *testing.T, events []WireEvent) WireEvent {
	t.Helper()
	require.NotEmpty(t, events)
	for i, e := range events {
		assert.Equal(t, i, e.Number, "%s", Raw(events))
		assert.Equal(t, i == len(events)-1, e.Ends(), "%s", e.raw)
	}
	return events[len(events)-1]
}

// Abandoned is the reason of a response whose process was killed.
const Abandoned = "the service ended before the response was finished"
