package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"codex-proxy/internal/paths"
	"codex-proxy/test/bench/line"
)

const (
	// brokerTurns are made one after the other, as codex makes them: each in a connection of its own.
	brokerTurns = 2000
	// brokerStreams are in flight at once.
	brokerStreams = 1000
)

// brokerAlone measures what a broker costs without codex: its CPU a turn, one after the other and with pauses, and its
// memory, idle and with many streams.
func (b *bench) brokerAlone(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running errgroup.Group
	defer func() { cancel(); _ = running.Wait() }() // the error is the end of ctx
	authority, err := line.NewAuthority(filepath.Join(b.dir, "broker-authority.pem"))
	if err != nil {
		return err
	}
	endpoint, err := line.Start(ctx, &running, authority, line.Options{})
	if err != nil {
		return err
	}
	worker := distant{kind: ofProvider, codex: "/nonexistent", Endpoint: endpoint, authority: authority}.worker()["workers/w0.toml"]
	broker, err := b.startBroker(ctx, worker, authority.File, "")
	if err != nil {
		return err
	}
	defer broker.end()
	defer broker.stop()
	if err := until(ctx, "the broker", func() error { return brokerTurn(ctx, turnOfCodex) }); err != nil {
		return err
	}
	rss, err := broker.memory("VmRSS")
	if err != nil {
		return err
	}
	b.result.One("the broker: RSS, idle", "MiB", 15, rss)
	anonymous, err := broker.memory("RssAnon")
	if err != nil {
		return err
	}
	b.result.One("the broker: RSS of its own, idle", "MiB", 0, anonymous)
	for _, row := range []struct {
		what  string
		turns int
		pause time.Duration
	}{{"CPU a turn, one after the other", brokerTurns, 0}, {"CPU a turn, 20 a second", 200, 50 * time.Millisecond}} {
		if err := b.brokerTurns(ctx, broker, row.what, row.turns, 0.15, row.pause); err != nil {
			return err
		}
	}
	if err := b.brokerHolds(ctx, broker); err != nil {
		return err
	}
	broker.end()
	broker.stop()
	bare, err := b.startBare(ctx, endpoint.Address, authority.File)
	if err != nil {
		return err
	}
	defer bare.end()
	defer bare.stop()
	if err := until(ctx, "the bare reverse proxy", func() error { return brokerTurn(ctx, turnOfCodex) }); err != nil {
		return err
	}
	return b.brokerTurns(ctx, bare, "CPU a turn of a bare reverse proxy in its place", brokerTurns, 0, 0)
}

// brokerTurns makes turns, one after the other, and adds the CPU time of each.
func (b *bench) brokerTurns(ctx context.Context, broker *broker, what string, turns int, most float64, rest time.Duration) error {
	before, err := broker.spent()
	if err != nil {
		return err
	}
	for range turns {
		if err := errors.Join(brokerTurn(ctx, turnOfCodex), pause(ctx, rest)); err != nil {
			return err
		}
	}
	now, err := broker.spent()
	b.result.One("the broker: "+what, "ms", most, micros(now-before)/1000/float64(turns))
	return err
}

// brokerHolds holds many answers open, ends every other one, and makes turns beside the rest.
func (b *bench) brokerHolds(ctx context.Context, broker *broker) error {
	var g errgroup.Group
	var begun, ended atomic.Int64
	half, all := make(chan struct{}), make(chan struct{})
	for n := range brokerStreams {
		over := []chan struct{}{half, all}[n%2]
		g.Go(func() error {
			defer ended.Add(1)
			res, err := toBroker(ctx, line.Held(turnOfCodex))
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if _, err := io.ReadAtLeast(res.Body, make([]byte, 1), 1); err != nil {
				return err
			}
			begun.Add(1)
			<-over
			return nil
		})
	}
	defer func() { _ = g.Wait() }() // its error is known
	defer close(all)
	err := until(ctx, "all streams", func() error {
		if n := begun.Load(); n < brokerStreams {
			return fmt.Errorf("%d streams have begun", n)
		}
		return nil
	})
	rss, failed := broker.memory("VmRSS")
	close(half)
	b.result.One(fmt.Sprintf("the broker: RSS with %d streams", brokerStreams), "MiB", 60, rss)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	err = until(ctx, "the end of every other stream", func() error {
		if n := ended.Load(); n < brokerStreams/2 {
			return fmt.Errorf("%d streams have ended", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.brokerTurns(ctx, broker, fmt.Sprintf("CPU a turn beside %d streams, of %d before", brokerStreams/2, brokerStreams),
		brokerTurns, 0, 0)
}

// turnOfCodex is the size of a turn with codex's own instructions.
var turnOfCodex = fmt.Appendf(nil, `{"model":%q,"stream":true,"store":false,"instructions":%q,"input":[]}`, modelOfLine,
	strings.Repeat("You are a coding agent. ", 500))

// brokerTurn is one turn of codex.
func brokerTurn(ctx context.Context, body []byte) error {
	res, err := toBroker(ctx, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && !bytes.Contains(text, []byte("response.completed")) {
		err = fmt.Errorf("the broker answered %s: %.200s", res.Status, text)
	}
	return err
}

// metadata is the header of codex with the kind of a request.
const metadata = `{"installation_id":"189a4c2b-54ef-4c9b-b122-fe82dfa5bd51","session_id":"01a227b7-addc-7171-87f0-73e0950329e1",` +
	`"turn_id":"01a227b7-b1d8-7822-8e2e-a6c04e032cb3","request_kind":"turn","sandbox":"seccomp","sandbox_mode":"read-only"}`

// toBroker sends a request in a connection of its own.
func toBroker(ctx context.Context, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+paths.BrokerAddress+"/responses", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "codex/0.0 " + strings.Repeat("x", 60),
		"Originator": "codex-proxy", "X-Codex-Turn-Metadata": metadata, "Session-Id": "01a227b7-addc-7171-87f0-73e0950329e1",
		"Thread-Id": "01a227b7-addc-7171-87f0-73e0950329e1", "X-Codex-Window-Id": "01a227b7-addc-7171-87f0-73e0950329e1:0",
	} {
		r.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}
	return transport.RoundTrip(r)
}
