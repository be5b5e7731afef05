package modelproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"codex-proxy/broker/brokerstate"
)

// usageSize is how many of the last bytes of an answer are kept to find its usage, which is near its end.
const usageSize = 1 << 10

// uncounted are the kinds of requests that codex does not count among the tokens of a turn. It does count a compaction,
// unless the endpoint compacts.
var uncounted = map[string]bool{kindReview: true, kindMemory: true, kindSubagent: true, kindImage: true,
	kindSearch: true}

// compactPath ends the address of a compaction by the endpoint.
const compactPath = "/compact"

// ofThreads are the headers by which codex names threads: the one of the request, its root, and its parent.
var ofThreads = []string{"Thread-Id", "Thread_id", "Session-Id", "Session_id", "Conversation_id",
	"X-Codex-Parent-Thread-Id"}

// threadsOf are the threads of a request.
func threadsOf(h http.Header) (all []string) {
	for _, name := range ofThreads {
		if thread := h.Get(name); isThread(thread) && !slices.Contains(all, thread) {
			all = append(all, thread)
		}
	}
	return all
}

// isThread reports whether codex may name a thread so: by a UUID. A tool may send any name.
func isThread(name string) bool {
	const longest, letters = 64, "0123456789abcdefABCDEF-"
	return name != "" && len(name) <= longest && strings.Trim(name, letters) == ""
}

// usageMark begins the usage in an answer. Within a text of the answer it would have a backslash before its quotes.
var usageMark = []byte(`"usage":`)

// meter counts the tokens of an answer, as the endpoint does.
func (o *observation) meter(res *http.Response) {
	if res.StatusCode == http.StatusOK && res.Request.Method == http.MethodPost {
		kind := kindOf(res.Request)
		hidden := brokerstate.Hidden{}
		if uncounted[kind] || strings.HasSuffix(res.Request.URL.Path, compactPath) {
			hidden = brokerstate.Hidden{Account: accountOf(res.Request), Threads: threadsOf(res.Request.Header)}
		}
		res.Body = &metered{ReadCloser: res.Body, end: func(t brokerstate.Tokens) { o.spend(kind, t, hidden) }}
	}
}

// spend counts the tokens of a request, which is a hidden one if it names threads.
func (o *observation) spend(kind string, t brokerstate.Tokens, hidden brokerstate.Hidden) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(hidden.Threads) > 0 {
		hidden.Tokens = t
		o.hidden.Hide(hidden)
		o.changed.Touch()
	}
	sum := o.tokens[kind]
	sum.Input += t.Input
	sum.Cached += t.Cached
	sum.Output += t.Output
	o.tokens[kind] = sum
}

// metered is the body of an answer.
type metered struct {
	io.ReadCloser
	last []byte // the last bytes
	once sync.Once
	end  func(brokerstate.Tokens)
}

// Read implements io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.keep(p[:n])
	if err != nil {
		m.report()
	}
	return n, err
}

// Close implements io.Closer.
func (m *metered) Close() error {
	err := m.ReadCloser.Close()
	m.report()
	return err
}

func (m *metered) keep(b []byte) {
	if len(b) >= usageSize {
		m.last = append(m.last[:0], b[len(b)-usageSize:]...)
		return
	}
	if over := len(m.last) + len(b) - usageSize; over > 0 {
		m.last = m.last[:copy(m.last, m.last[over:])]
	}
	m.last = append(m.last, b...)
}

func (m *metered) report() {
	m.once.Do(func() {
		if t, ok := usageIn(m.last); ok {
			m.end(t)
		}
		m.last = nil
	})
}

// usageIn is the usage at the end of an answer.
func usageIn(last []byte) (t brokerstate.Tokens, ok bool) {
	at := bytes.LastIndex(last, usageMark)
	if at < 0 {
		return t, false
	}
	var usage struct {
		Input   uint64 `json:"input_tokens"`
		Output  uint64 `json:"output_tokens"`
		Details struct {
			Cached uint64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	text := bytes.TrimLeft(last[at+len(usageMark):], " \n")
	if !bytes.HasPrefix(text, []byte{'{'}) || json.NewDecoder(bytes.NewReader(text)).Decode(&usage) != nil {
		return t, false
	}
	return brokerstate.Tokens{Input: usage.Input, Cached: usage.Details.Cached, Output: usage.Output}, true
}
