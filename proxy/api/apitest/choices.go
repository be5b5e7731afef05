package apitest

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// Bomb is an answer that panics once when it is armed.
type Bomb struct {
	*httptest.ResponseRecorder
	Armed atomic.Bool
}

// Header panics once, if the bomb is armed.
func (b *Bomb) Header() http.Header {
	if b.Armed.CompareAndSwap(true, false) {
		panic("boom")
	}
	return b.ResponseRecorder.Header()
}

// SetReadDeadline is for http.ResponseController.
func (*Bomb) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for http.ResponseController.
func (*Bomb) SetWriteDeadline(time.Time) error { return nil }
