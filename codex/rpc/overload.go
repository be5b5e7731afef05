package rpc

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// longer and jitter make the "exponentially increasing delay and jitter" that codex asks for with its code -32001.
func longer(backoff time.Duration) time.Duration { return min(2*backoff, maxBackoff) }
func jitter(backoff time.Duration) time.Duration { return backoff/2 + rand.N(backoff) }

// IsOverloaded reports whether codex asks to try again later.
func IsOverloaded(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeOverloaded
}

// WhileOverloaded repeats f, which uses c, while codex is overloaded.
func WhileOverloaded(ctx context.Context, c *Conn, f func() error) error {
	for backoff := firstBackoff; ; backoff = longer(backoff) {
		err := f()
		if !IsOverloaded(err) {
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

// PostWhileOverloaded is Post, repeated while codex is overloaded, for a request that no caller repeats.
func PostWhileOverloaded(c *Conn, method string, params any, then func(Reply)) {
	postAfter(c, firstBackoff, method, params, then)
}

func postAfter(c *Conn, backoff time.Duration, method string, params any, then func(Reply)) {
	c.Post(method, params, func(r Reply) {
		switch {
		case r.Error != nil && r.Error.Code == CodeOverloaded:
			time.AfterFunc(jitter(backoff), func() { postAfter(c, longer(backoff), method, params, then) })
		case then != nil:
			then(r)
		}
	})
}
