package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
	"codex-proxy/test/bed"
)

// logCollector follows a command to its end over the cuts of its connections, by the daemon's death or by itself. It belongs
// to one goroutine.
type logCollector struct {
	bed         *daemonBed
	id          string
	most        int // bytes of one connection
	got         []byte
	connections int
}

// errCut ends a connection that has taken its bytes.
var errCut = errors.New("the connection took its bytes")

// collect follows the first command of a session in the nth of the three forms of a log, with a cut after most bytes or
// less, and sends what came. A fault is a text in its place.
func (b *daemonBed) collect(id string, form, most int) <-chan *logCollector {
	c := &logCollector{bed: b, id: id, most: most}
	forms := []func(context.Context, int) error{c.raw, c.events, c.socket}
	done := make(chan *logCollector, 1)
	go func() {
		defer func() { done <- c }()
		ctx, cancel := context.WithTimeout(b.t.Context(), 2*bed.Bound)
		defer cancel()
		for ctx.Err() == nil {
			c.connections++
			if forms[form%len(forms)](ctx, 1+rand.IntN(most)) == nil { //nolint:gosec // any number does
				return
			}
		}
		c.got = fmt.Appendf(c.got, "\nNO END AFTER %d CONNECTIONS", c.connections)
	}()
	return done
}

// get begins to follow behind what there is.
func (c *logCollector) get(ctx context.Context, accept string) (io.ReadCloser, error) {
	url := "http://codex-runner/v1/sessions/" + c.id + "/commands/1/logs?follow=true&since_offset=" + strconv.Itoa(len(c.got))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := c.bed.client.Do(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		err = errors.New(answer.Status)
	}
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// raw takes bytes as they are. The end of the answer is that of the command.
func (c *logCollector) raw(ctx context.Context, most int) error {
	body, err := c.get(ctx, "*/*")
	if err != nil {
		return err
	}
	defer body.Close()
	var read bytes.Buffer
	_, err = io.CopyN(&read, body, int64(most))
	c.got = append(c.got, read.Bytes()...)
	switch {
	case err == nil:
		return errCut
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// events takes lines as server-sent events.
func (c *logCollector) events(ctx context.Context, most int) error {
	body, err := c.get(ctx, "text/event-stream")
	if err != nil {
		return err
	}
	defer body.Close()
	kind, lines := "", bufio.NewReader(body)
	for began := len(c.got); len(c.got)-began < most; {
		text, err := lines.ReadString('\n')
		if err != nil {
			return errors.Join(err, errCut)
		}
		if name, ok := strings.CutPrefix(text, "event: "); ok {
			kind = strings.TrimSpace(name)
		}
		data, ok := strings.CutPrefix(text, "data: ")
		switch {
		case !ok:
		case kind == "end":
			return nil
		default:
			if err := c.line(data); err != nil {
				return err
			}
		}
	}
	return errCut
}

func (c *logCollector) line(data string) error {
	var line wire.Line
	if err := json.Unmarshal([]byte(data), &line); err != nil {
		return err
	}
	if line.Offset != int64(len(c.got)) {
		c.got = fmt.Appendf(c.got, "\nA LINE OF OFFSET %d", line.Offset)
	}
	c.got = append(append(c.got, line.Text...), line.Bytes...)
	if line.Newline {
		c.got = append(c.got, '\n')
	}
	return nil
}

// socket takes chunks by WebSocket, as `codex-runner logs` does: that connects again by itself.
func (c *logCollector) socket(ctx context.Context, most int) error {
	api := client.New(fmt.Sprintf("/proc/%d/root%s", c.bed.PID(), paths.Socket))
	defer api.Close()
	began := len(c.got)
	_, err := api.ReadLog(ctx, client.Log{
		Session: c.id, Command: 1, From: int64(began), Follow: true,
		Lost: func(error) { c.connections++ },
		Sink: func(chunk logs.Chunk) error {
			c.got = append(c.got, chunk.Data...)
			if len(c.got)-began >= most {
				return errCut
			}
			return nil
		},
	})
	return err
}

// collected waits for what a logCollector got.
func (b *daemonBed) collected(from <-chan *logCollector) *logCollector {
	b.t.Helper()
	select {
	case c := <-from:
		return c
	case <-time.After(3 * bed.Bound):
		b.t.Fatal("a follower does not end")
		return nil
	}
}
