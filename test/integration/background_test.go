package integration

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

// wireEvent is an event of a streamed response, as it came.
type wireEvent struct {
	raw    string // its lines and the empty one
	kind   string
	number int
	delta  string
	answer polled // of an event with a response
}

// ends reports whether the event is the last of a response.
func (e wireEvent) ends() bool {
	return e.kind == "response.completed" || e.kind == "response.failed" || e.kind == "response.incomplete"
}

// polled is a response as a poll has it.
type polled struct {
	ID     string
	Status string
	Error  *struct{ Code, Message string }
	Output []struct {
		Content []struct{ Text string }
	}
}

// text is the text of a response.
func (p polled) text() (text string) {
	for _, item := range p.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// readEvents reads a stream, without its comments, to its end or until the event of which stop reports true.
func readEvents(from io.Reader, stop func(wireEvent) bool) (list []wireEvent, err error) {
	lines := bufio.NewReader(from)
	var e wireEvent
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
		e = wireEvent{}
	}
}

func (e *wireEvent) read(data string) error {
	var fields struct {
		Type     string
		Number   *int `json:"sequence_number"`
		Delta    string
		Response polled
	}
	if err := json.Unmarshal([]byte(data), &fields); err != nil {
		return fmt.Errorf("%q: %w", data, err)
	}
	if fields.Number == nil {
		return fmt.Errorf("an event without a number: %s", data)
	}
	e.kind, e.number, e.delta, e.answer = fields.Type, *fields.Number, fields.Delta, fields.Response
	return nil
}

// toTheEnd reads on to the end of a stream.
func toTheEnd(wireEvent) bool { return false }

// toText reads on to a text.
func toText(text string) func(wireEvent) bool {
	return func(e wireEvent) bool { return e.delta == text }
}

// raw is the bytes of events.
func raw(events []wireEvent) string {
	var text strings.Builder
	for _, e := range events {
		text.WriteString(e.raw)
	}
	return text.String()
}

// call sends a request to the Responses endpoint, on a new connection: a kept one belongs to the process before a reload.
func (b *bed) call(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+"/v1/responses"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	return b.http.Do(req)
}

// called is call for a request whose answer is JSON.
func (b *bed) called(method, path, body string) (status int, answer []byte) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	res, err := b.call(ctx, method, path, body)
	require.NoError(b.t, err)
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return res.StatusCode, answer
}

// response is called for a request that has a response for its answer.
func (b *bed) response(method, path, body string) (p polled) {
	b.t.Helper()
	status, answer := b.called(method, path, body)
	require.Equal(b.t, http.StatusOK, status, string(answer))
	require.NoError(b.t, json.Unmarshal(answer, &p), string(answer))
	return p
}

// inBackground is the body of a request for a response in the background.
func inBackground(stream bool, prompt string) string {
	return fmt.Sprintf(`{"model":%q,"background":true,"stream":%t,"input":%q}`, model, stream, prompt)
}

// poll is a GET of a response.
func (b *bed) poll(id string) polled {
	b.t.Helper()
	return b.response(http.MethodGet, "/"+id, "")
}

// resume continues a stream behind an event, or reads it from its beginning, after -1.
func (b *bed) resume(ctx context.Context, id string, after int, stop func(wireEvent) bool) ([]wireEvent, error) {
	path := "/" + id + "?stream=true"
	if after >= 0 {
		path += fmt.Sprintf("&starting_after=%d", after)
	}
	res, err := b.call(ctx, http.MethodGet, path, "")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(res.Body)
		return nil, fmt.Errorf("%s: %s", res.Status, answer)
	}
	return readEvents(res.Body, stop)
}

// resumed is resume, which must succeed.
func (b *bed) resumed(id string, after int, stop func(wireEvent) bool) []wireEvent {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	list, err := b.resume(ctx, id, after, stop)
	require.NoError(b.t, err, raw(list))
	return list
}

// resuming is resumed beside the test, which the returned function waits for.
func (b *bed) resuming(id string, after int, stop func(wireEvent) bool) func() []wireEvent {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	type outcome struct {
		list []wireEvent
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		defer cancel()
		list, err := b.resume(ctx, id, after, stop)
		ended <- outcome{list, err}
	}()
	return func() []wireEvent {
		b.t.Helper()
		o := <-ended
		require.NoError(b.t, o.err, raw(o.list))
		return o.list
	}
}

// uncut is a response in the background whose first client stays to its end.
type uncut struct {
	id    string
	ended chan uncutEnd
}

type uncutEnd struct {
	list []wireEvent
	err  error
}

// stream begins a response, and returns when its client has the text.
func (b *bed) stream(prompt, text string) *uncut {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
	b.t.Cleanup(cancel)
	res, err := b.call(ctx, http.MethodPost, "", inBackground(true, prompt))
	require.NoError(b.t, err)
	if res.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(res.Body)
		require.Equal(b.t, http.StatusOK, res.StatusCode, string(answer))
	}
	u, begun := &uncut{ended: make(chan uncutEnd, 1)}, make(chan string, 1)
	go func() {
		defer res.Body.Close()
		id, wanted := "", toText(text)
		list, err := readEvents(res.Body, func(e wireEvent) bool {
			if e.number == 0 {
				id = e.answer.ID
			}
			if wanted(e) {
				begun <- id
			}
			return false
		})
		close(begun)
		u.ended <- uncutEnd{list, err}
	}()
	u.id = <-begun
	require.NotEmpty(b.t, u.id, "the stream has ended before its text")
	return u
}

// whole waits for the end of the uncut stream.
func (u *uncut) whole(t *testing.T) []wireEvent {
	t.Helper()
	end := <-u.ended
	require.NoError(t, end.err)
	return end.list
}

// cut waits for the end of the process that served the stream.
func (u *uncut) cut(t *testing.T) []wireEvent {
	t.Helper()
	end := <-u.ended
	require.Error(t, end.err, "%s", raw(end.list))
	return end.list
}

// assertWhole asserts that a list has every event of a response once, and returns the last.
func assertWhole(t *testing.T, events []wireEvent) wireEvent {
	t.Helper()
	require.NotEmpty(t, events)
	for i, e := range events {
		assert.Equal(t, i, e.number, "%s", raw(events))
		assert.Equal(t, i == len(events)-1, e.ends(), "%s", e.raw)
	}
	return events[len(events)-1]
}

// assertSame asserts that a stored stream has these bytes, from its beginning and behind each of its events.
func (b *bed) assertSame(id string, events []wireEvent) {
	b.t.Helper()
	assert.Equal(b.t, raw(events), raw(b.resumed(id, -1, toTheEnd)))
	for i := range events {
		assert.Equal(b.t, raw(events[i+1:]), raw(b.resumed(id, i, toTheEnd)), "after %d", i)
	}
}
