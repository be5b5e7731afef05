package modelproxy

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// forward sends the requests of codex on, and their answers back, each event at once. It does what codex needs of
// httputil.ReverseProxy, which copies each request and its headers: a third of the memory of an answer in flight.
type forward struct {
	transport http.RoundTripper
	rewrite   func(out *http.Request)                                 // sets the address
	modify    func(*http.Response)                                    // before codex gets the answer
	fail      func(w http.ResponseWriter, r *http.Request, err error) // answers a request that has no answer
	buffers   *buffers
	logger    *slog.Logger
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
	if err := f.pass(w, res.Body); err != nil {
		f.logger.Debug("an answer has ended too early", "error", err)
		panic(http.ErrAbortHandler) // codex learns that the answer is cut
	}
}

// pass copies an answer, each piece at once.
func (f *forward) pass(w http.ResponseWriter, body io.Reader) error {
	buffer := f.buffers.Get()
	defer f.buffers.Put(buffer)
	out := http.NewResponseController(w)
	for {
		n, err := body.Read(buffer)
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
