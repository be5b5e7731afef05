package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// responses is a client of the Responses endpoint of a daemon.
type responses struct {
	*http.Client
	daemon *daemon
}

func (d *daemon) responses() responses {
	return responses{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, d}
}

// call sends a request, whose answer must be a success.
func (r responses) call(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.daemon.address+responsesPath+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.daemon.key)
	res, err := r.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return nil, fmt.Errorf("%s %s answered %s: %s", method, path, res.Status, b)
	}
	return res, nil
}

// begin begins a response in the background, and returns its id. The client of a streamed one leaves it after its
// first event.
func (r responses) begin(ctx context.Context, prompt string, stream bool) (id string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := r.call(ctx, http.MethodPost, "", map[string]any{"model": "demo", "background": true, "stream": stream,
		"input": prompt})
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var made struct {
		ID       string
		Response struct{ ID string }
	}
	if !stream {
		err = json.NewDecoder(res.Body).Decode(&made)
		return made.ID, err
	}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if data, is := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); is {
			err = json.Unmarshal(data, &made)
			return made.Response.ID, err
		}
	}
	return "", fmt.Errorf("a response in the background has no first event")
}

// cancel cancels a response in the background.
func (r responses) cancel(ctx context.Context, id string) error {
	res, err := r.call(ctx, http.MethodPost, "/"+id+"/cancel", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// status is what a poll of a response returns.
func (r responses) status(ctx context.Context, id string) (string, error) {
	res, err := r.call(ctx, http.MethodGet, "/"+id, nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var polled struct{ Status string }
	err = json.NewDecoder(res.Body).Decode(&polled)
	return polled.Status, err
}

// resume continues the stream of a response behind an event, and returns how long the next event took. It reads on to
// an event whose type has the word, if any, and then cuts the connection.
func (r responses) resume(ctx context.Context, id string, after int, word string) (first time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	res, err := r.call(ctx, http.MethodGet, fmt.Sprintf("/%s?stream=true&starting_after=%d", id, after), nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		kind, is := strings.CutPrefix(lines.Text(), "event: ")
		if is && first == 0 {
			first = time.Since(began)
		}
		if is && strings.Contains(kind, word) {
			return first, nil
		}
	}
	return first, fmt.Errorf("a resumed stream ended without an event %q: %w", word, lines.Err())
}
