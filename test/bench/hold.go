package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// held are streams that stay open.
type held struct {
	conns []net.Conn
	stop  context.CancelFunc
	slow  sync.WaitGroup
}

func (h *held) close() {
	h.stop()
	for _, c := range h.conns {
		_ = c.Close()
	}
	h.slow.Wait()
}

// hold opens so many streams, and returns when each has begun. With a size each
// answer has so many bytes, and its client reads one of them a second.
func (d *daemon) hold(ctx context.Context, n, size int) (*held, error) {
	ctx, stop := context.WithCancel(ctx)
	h := &held{conns: make([]net.Conn, n), stop: stop}
	errs := make(chan error, n)
	turns := make(chan struct{}, 64) // connections that begin at once
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			var err error
			if h.conns[i], err = d.open(size); err != nil {
				errs <- fmt.Errorf("stream %d: %w", i, err)
			}
		})
	}
	all.Wait()
	h.conns = compact(h.conns)
	select {
	case err := <-errs:
		h.close()
		return nil, err
	default:
	}
	if size > 0 {
		h.slow.Go(func() { h.trickle(ctx) })
	}
	return h, nil
}

func compact(conns []net.Conn) (open []net.Conn) {
	for _, c := range conns {
		if c != nil {
			open = append(open, c)
		}
	}
	return open
}

// open sends one request and waits for the first bytes of its answer.
func (d *daemon) open(size int) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	prompt := askHold
	if size > 0 {
		prompt = askFrames(64, 0, size/64)
		dialer.Control = func(_, _ string, c syscall.RawConn) error { return c.Control(shrink) }
	}
	c, err := dialer.Dial("tcp", d.address)
	if err != nil {
		return nil, err
	}
	body := chat(prompt, true)(0)
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", d.address, d.key, len(body), body)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	head := make([]byte, len("HTTP/1.1 200"))
	if _, err := c.Read(head); err != nil || !strings.HasSuffix(string(head), "200") {
		_ = c.Close()
		return nil, fmt.Errorf("answered %q: %w", head, err)
	}
	return c, nil
}

// shrink leaves the kernel little room to read ahead for a slow client.
func shrink(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048)
}

// trickle reads one byte a second of every stream.
func (h *held) trickle(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for one := make([]byte, 1); ; {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
		}
		for _, c := range h.conns {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, _ = c.Read(one) // a stream that codex-proxy has given up is no fault
		}
	}
}
