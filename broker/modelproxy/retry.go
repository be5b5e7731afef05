package modelproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// repeatable is the body of a request until the endpoint answers. It is not kept longer: an answer may take minutes.
type repeatable struct {
	text    atomic.Pointer[[]byte]
	release func() // once
}

type repeatableKey struct{}

var errAnswered = errors.New("the endpoint has answered")

// open returns the body from its beginning.
func (r *repeatable) open() (io.ReadCloser, error) {
	text := r.text.Load()
	if text == nil {
		return nil, errAnswered
	}
	return &textReader{*text}, nil
}

// textReader reads a text, and does not keep it after its end.
type textReader struct{ text []byte }

// Text implements conversation.Text.
func (t *textReader) Text() []byte { return t.text }

// Read implements io.Reader.
func (t *textReader) Read(p []byte) (int, error) {
	n := copy(p, t.text)
	if t.text = t.text[n:]; len(t.text) == 0 {
		t.text = nil
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (t *textReader) Close() error { return nil }

// retriable keeps the body of a request while there is room for it, so that it can go out in another connection if the
// endpoint has read nothing of it.
func (l *Proxy) retriable(next http.Handler) http.Handler {
	bodies := &bodies{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength <= 0 {
			next.ServeHTTP(w, r)
			return
		}
		body, err := bodies.keep(r)
		if err != nil {
			return // codex has gone
		}
		if body.kept {
			again := &repeatable{release: sync.OnceFunc(body.release)}
			defer again.release()
			again.text.Store(&body.text)
			r = r.WithContext(context.WithValue(r.Context(), repeatableKey{}, again))
			r.GetBody = again.open
			r.Body, _ = again.open()
		}
		next.ServeHTTP(w, r)
	})
}

// answered gives up the body of a request that the endpoint has answered.
func answered(res *http.Response) {
	if again, ok := res.Request.Context().Value(repeatableKey{}).(*repeatable); ok {
		again.text.Store(nil)
		again.release()
	}
}
