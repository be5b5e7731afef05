package modelproxy

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// forward sends the requests of codex on, and their answers back, each event at once. It is the part of
// httputil.ReverseProxy that codex needs, without copies of each request and its headers.
type forward struct {
	transport http.RoundTripper
	rewrite   func(out *http.Request)                                 // sets the address
	modify    func(*http.Response)                                    // before codex gets the answer
	fail      func(w http.ResponseWriter, r *http.Request, err error) // answers a request that has no answer
}

// ServeHTTP implements http.Handler.
func (f *forward) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := r.WithContext(r.Context())
	out.RequestURI, out.Close, out.Trailer = "", false, nil
	f.rewrite(out)
	out.Header = headersOf(out.Header)
	if out.Header["User-Agent"] == nil {
		out.Header["User-Agent"] = []string{""} // net/http would add its own
	}
	if r.Method == http.MethodGet {
		out.Body, out.GetBody, out.ContentLength = http.NoBody, nil, 0
	}
	out.Body = ending(out.Body, out.ContentLength)
	res, err := f.transport.RoundTrip(out)
	if err != nil {
		f.fail(w, r, err)
		return
	}
	defer res.Body.Close()
	f.modify(res)
	passHeader(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	if pass(w, res.Body) != nil {
		panic(http.ErrAbortHandler) // codex learns that the answer is cut
	}
}

// pass copies an answer, each piece at once.
func pass(w http.ResponseWriter, body io.Reader) error {
	buffer := newBuffer()
	defer buffer.release()
	out := http.NewResponseController(w)
	begin := late(out)
	defer begin()
	for {
		n, err := body.Read(*buffer.text)
		begin()
		if n > 0 {
			if _, failed := w.Write((*buffer.text)[:n]); failed != nil {
				return failed
			}
			buffer.fit(n)
			if failed := out.Flush(); failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// The sizes of a buffer. Most events of an answer are small, and many answers wait for the next one at the same time; a
// long event is read in larger pieces.
const (
	smallBuffer = 1 << 10
	largeBuffer = 16 << 10
)

var smallBuffers, largeBuffers = poolOf(smallBuffer), poolOf(largeBuffer)

func poolOf(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// buffer is the buffer of an answer on its way to codex.
type buffer struct {
	pool *sync.Pool
	text *[]byte
}

func newBuffer() *buffer { return &buffer{smallBuffers, smallBuffers.Get().(*[]byte)} }

// fit chooses the size for the next piece, after one of n bytes.
func (b *buffer) fit(n int) {
	pool := smallBuffers
	if n == len(*b.text) || n > smallBuffer {
		pool = largeBuffers
	}
	if pool != b.pool {
		b.release()
		b.pool, b.text = pool, pool.Get().(*[]byte)
	}
}

func (b *buffer) release() { b.pool.Put(b.text) }

// lateHeader is how long the header of an answer waits for its first piece, with which it is one write.
const lateHeader = 2 * time.Millisecond

// late flushes the header of an answer unless begin is called soon. out is in use until begin returns.
func late(out *http.ResponseController) (begin func()) {
	var mu sync.Mutex
	begun := false
	timer := time.AfterFunc(lateHeader, func() {
		mu.Lock()
		defer mu.Unlock()
		if !begun {
			_ = out.Flush() // the next one reports the error
		}
	})
	return func() {
		if begun { // only this function sets it
			return
		}
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		begun = true
	}
}

// passHeader passes on the headers of an answer without the ones about its connection.
func passHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
	for _, list := range from["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			to.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		to.Del(name)
	}
}

// codexHeaders are the headers by which codex asks a model for something, beside those of codexPrefix. A tool knows the
// token of the model proxy, too. With others it could make another request of one that is allowed
// (X-HTTP-Method-Override, X-Original-URL), or a request for somebody else (OpenAI-Organization,
// X-OpenAI-Actor-Authorization). Answers come without a coding (Accept-Encoding), as the bound of their events counts
// bytes.
var codexHeaders = map[string]bool{
	"Accept": true, "Content-Encoding": true, "Content-Type": true, "User-Agent": true,
	"Originator": true, "Version": true, "Traceparent": true, "Tracestate": true,
	"Session-Id": true, "Session_id": true, "Thread-Id": true, "Thread_id": true, "Conversation_id": true,
	"Openai-Beta": true, "X-Client-Request-Id": true, "X-Oai-Attestation": true, "X-Openai-Memgen-Request": true,
	"X-Openai-Product-Sku": true, "X-Openai-Subagent": true, "X-Openai-Tool-Output-Truncation-Policy": true,
	"X-Openai-Internal-Codex-Residency": true, "X-Openai-Internal-Codex-Responses-Lite": true,
	"X-Responsesapi-Include-Timing-Metrics": true,
}

const codexPrefix = "X-Codex-"

// headersOf are the headers of a request that go on.
func headersOf(h http.Header) http.Header {
	passed := http.Header{}
	for name, values := range h {
		if codexHeaders[name] || strings.HasPrefix(name, codexPrefix) {
			passed[name] = values
		}
	}
	return passed
}

// queryOf is the part of a query that goes on: codex asks for the models of its version.
func queryOf(u *url.URL) string {
	if u.RawQuery == "" {
		return ""
	}
	const version = "client_version"
	passed := url.Values{}
	if values, has := u.Query()[version]; has {
		passed[version] = values
	}
	return passed.Encode()
}
