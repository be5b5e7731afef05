package modelproxy

import (
	"errors"
	"io"
	"net/http"
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
	buffers   *buffers
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
	if f.pass(w, res.Body) != nil {
		panic(http.ErrAbortHandler) // codex learns that the answer is cut
	}
}

// pass copies an answer, each piece at once.
func (f *forward) pass(w http.ResponseWriter, body io.Reader) error {
	buffer := f.buffers.Get()
	defer f.buffers.Put(buffer)
	out := http.NewResponseController(w)
	begin := late(out)
	defer begin()
	for {
		n, err := body.Read(buffer)
		begin()
		if n > 0 {
			if _, failed := w.Write(buffer[:n]); failed != nil {
				return failed
			}
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

// passHeader passes on the headers of an answer, but for those of its connection.
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
