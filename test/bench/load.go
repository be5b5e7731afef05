package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load sends requests to a target from several clients at once.
type load struct {
	address, key string
	clients      int
	requests     int
	body         func(i int) []byte
	stream       bool
	path         string // chatPath if empty
}

// The endpoints.
const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"
)

// sample is the measurements of the clients.
type sample struct{ first, whole []time.Duration }

// run makes all requests; any that fails ends it, as a measurement with failures
// is none.
func (l load) run(ctx context.Context) (s sample, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transport := &http.Transport{MaxIdleConnsPerHost: l.clients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var next atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	for range l.clients {
		all.Go(func() {
			var own sample
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= l.requests {
					break
				}
				first, whole, err := l.ask(ctx, client, i)
				if err != nil {
					cancel(err)
					break
				}
				own.first, own.whole = append(own.first, first), append(own.whole, whole)
			}
			mu.Lock()
			defer mu.Unlock()
			s.first, s.whole = append(s.first, own.first...), append(s.whole, own.whole...)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	return s, nil
}

func (l load) ask(ctx context.Context, client *http.Client, i int) (first, whole time.Duration, err error) {
	req, err := l.request(ctx, i)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 500))
		return 0, 0, fmt.Errorf("%s answered %s: %s", l.address, res.Status, b)
	}
	if !l.stream {
		_, err = io.Copy(io.Discard, res.Body)
		return time.Since(began), time.Since(began), err
	}
	first, err = readStream(res.Body, began)
	return first, time.Since(began), err
}

func (l load) request(ctx context.Context, i int) (*http.Request, error) {
	url := "http://" + l.address + cmp.Or(l.path, chatPath)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(l.body(i)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+l.key)
	if l.path == messagesPath {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	return req, nil
}

// readStream returns when the first text came, after the stream has ended well.
func readStream(body io.Reader, began time.Time) (first time.Duration, err error) {
	lines := bufio.NewScanner(body)
	done := false
	for lines.Scan() {
		switch line := lines.Bytes(); {
		case bytes.Contains(line, []byte(frameHead)):
			if first == 0 {
				first = time.Since(began)
			}
		case bytes.Equal(line, []byte("data: [DONE]")), bytes.Equal(line, []byte("event: message_stop")):
			done = true
		}
	}
	if err := lines.Err(); err != nil {
		return first, err
	}
	if !done || first == 0 {
		return first, fmt.Errorf("a stream ended early")
	}
	return first, nil
}

// chat is a small request.
func chat(prompt string, stream bool) func(int) []byte {
	b, err := json.Marshal(map[string]any{"model": "demo", "stream": stream, "messages": []any{
		map[string]any{"role": "system", "content": "You are a helpful assistant."},
		map[string]any{"role": "user", "content": prompt},
	}})
	if err != nil {
		panic(err)
	}
	return func(int) []byte { return b }
}

// messageAsked is the small request of chat, to the Messages endpoint.
func messageAsked(prompt string, stream bool) func(int) []byte {
	b, err := json.Marshal(map[string]any{"model": "demo", "stream": stream, "max_tokens": 1000,
		"system":   "You are a helpful assistant.",
		"messages": []any{map[string]any{"role": "user", "content": prompt}},
	})
	if err != nil {
		panic(err)
	}
	return func(int) []byte { return b }
}

// quantile q of ds, which it sorts.
func quantile[T cmp.Ordered](ds []T, q float64) (value T) {
	if len(ds) == 0 {
		return value
	}
	slices.Sort(ds)
	return ds[min(len(ds)-1, int(q*float64(len(ds))))]
}
