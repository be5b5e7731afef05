package appserver

import (
	"context"
	"math/rand/v2"
	"time"

	"codex-proxy/codex/rpc"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// longer and jitter make the "exponentially increasing delay and jitter" that codex asks for with its code -32001.
func longer(backoff time.Duration) time.Duration { return min(2*backoff, maxBackoff) }
func jitter(backoff time.Duration) time.Duration { return backoff/2 + rand.N(backoff) }

// retrying repeats f while codex is overloaded.
func (c *Conn) retrying(ctx context.Context, f func() error) error {
	for backoff := firstBackoff; ; backoff = longer(backoff) {
		err := f()
		if !isOverloaded(err) {
			return err
		}
		t := time.NewTimer(jitter(backoff))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		case <-c.Done():
			t.Stop()
			return c.Err()
		}
	}
}

// postRetrying is Post, repeated while codex is overloaded: no caller repeats the end of a turn or thread.
func (c *Conn) postRetrying(method string, params any, then func(rpc.Reply)) {
	c.postAfter(firstBackoff, method, params, then)
}

func (c *Conn) postAfter(backoff time.Duration, method string, params any, then func(rpc.Reply)) {
	c.Post(method, params, func(r rpc.Reply) {
		switch {
		case r.Error != nil && r.Error.Code == CodeOverloaded:
			time.AfterFunc(jitter(backoff), func() { c.postAfter(longer(backoff), method, params, then) })
		case then != nil:
			then(r)
		}
	})
}
