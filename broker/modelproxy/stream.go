package modelproxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"codex-proxy/workers/broker"
)

// refusal is why an account does not serve a request.
type refusal struct {
	kind     broker.Refusal
	resetsAt int64 // of a usage limit, in seconds since 1970; 0: not known
	foreign  bool  // the request has text that was encrypted for another account
}

// The codes of errors of the accounts' service.
const (
	codeLimit   = "usage_limit_reached"
	codeQuota   = "insufficient_quota"
	codeForeign = "invalid_encrypted_content"
)

// fault is the error of an answer, or of an event.
type fault struct {
	Type     string `json:"type"`
	Code     string `json:"code"`
	ResetsAt int64  `json:"resets_at"`
	ResetsIn int64  `json:"resets_in_seconds"`
}

func (f fault) is(codes ...string) bool {
	for _, code := range codes {
		if f.Type == code || f.Code == code {
			return true
		}
	}
	return false
}

// limit is the refusal for the account's quota. The others are for codex to report, above all usage_not_included (the
// plan lacks the model): a tool may ask for any model, and takes no account from anybody by that.
func (f fault) limit() refusal {
	if !f.is(codeLimit, codeQuota) {
		return refusal{}
	}
	if f.ResetsAt == 0 && f.ResetsIn > 0 {
		f.ResetsAt = time.Now().Unix() + f.ResetsIn
	}
	return refusal{kind: broker.UsageLimit, resetsAt: f.ResetsAt}
}

// stream is an answer of the accounts' service, which codex has nothing of yet.
type stream struct {
	res    *http.Response
	from   *bufio.Reader
	first  []byte // the bytes read to find out about a refusal
	events bool   // the answer is a stream of them
	buffer []byte
}

const (
	maxError = 64 << 10 // of an answer that is an error, in bytes
	maxEvent = 1 << 20  // a longer one passes in pieces
)

func newStream(res *http.Response) *stream {
	return &stream{res: res, from: bufio.NewReaderSize(res.Body, 16<<10),
		events: strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")}
}

// refusal reads the answer up to the first output of the model, and reports whether it is a refusal.
func (s *stream) refusal() refusal {
	switch s.res.StatusCode {
	case http.StatusOK:
		return s.early()
	case http.StatusUnauthorized:
		return refusal{kind: broker.Unauthorized}
	case http.StatusTooManyRequests:
		return s.limitOf(s.error())
	case http.StatusBadRequest:
		return refusal{foreign: s.error().is(codeForeign)}
	}
	return refusal{}
}

// error reads the error of the whole answer.
func (s *stream) error() fault {
	var answer struct {
		Error fault `json:"error"`
	}
	s.first, _ = io.ReadAll(io.LimitReader(s.from, maxError))
	_ = json.Unmarshal(s.first, &answer) // one that does not parse is none that we know
	return answer.Error
}

// early reads the events that come before any output.
func (s *stream) early() refusal {
	if !s.events {
		return refusal{}
	}
	for len(s.first) < maxError {
		event, err := s.read()
		s.first = append(s.first, event...)
		switch kind := typeOf(event); {
		case kind == "response.failed":
			return s.limit(event)
		case err != nil, kind != "" && kind != "response.created" && kind != "response.in_progress" &&
			kind != "response.queued" && !strings.HasPrefix(kind, "codex."):
			return refusal{}
		}
	}
	return refusal{}
}

// next is the next part of the answer: an event, if it has events. It is valid until the next call.
func (s *stream) next() ([]byte, error) {
	if first := s.first; len(first) > 0 {
		s.first = nil
		return first, nil
	}
	if s.events {
		return s.read()
	}
	if s.buffer == nil {
		s.buffer = make([]byte, 16<<10)
	}
	n, err := s.from.Read(s.buffer)
	return s.buffer[:n], err
}

// read reads up to an empty line.
func (s *stream) read() ([]byte, error) {
	s.buffer = s.buffer[:0]
	for {
		line, err := s.from.ReadSlice('\n')
		s.buffer = append(s.buffer, line...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return s.buffer, err
		}
		if len(s.buffer) > maxEvent || err == nil && len(bytes.TrimRight(line, "\r\n")) == 0 {
			return s.buffer, nil
		}
	}
}

// idle means that nothing is left to read at once.
func (s *stream) idle() bool { return s.from.Buffered() == 0 }

// limit is the refusal in an event; none in most.
func (s *stream) limit(event []byte) refusal {
	if !s.events || !bytes.Contains(event, []byte("response.failed")) {
		return refusal{}
	}
	var failed struct {
		Type     string `json:"type"`
		Response struct {
			Error fault `json:"error"`
		} `json:"response"`
	}
	if json.Unmarshal(dataOf(event), &failed) != nil || failed.Type != "response.failed" {
		return refusal{}
	}
	return s.limitOf(failed.Response.Error)
}

// limitOf is the refusal for the account's quota, unless the limit is one model's.
func (s *stream) limitOf(f fault) refusal {
	if s.ofModel() {
		return refusal{}
	}
	return f.limit()
}

// ofModel reports whether the limit that is used up has another name than the account's own: codex takes it for one of
// a model then, too.
func (s *stream) ofModel() bool {
	active := strings.ReplaceAll(strings.TrimSpace(s.res.Header.Get("X-Codex-Active-Limit")), "_", "-")
	if active == "" {
		return false
	}
	name := strings.TrimSpace(s.res.Header.Get("X-" + active + "-Limit-Name"))
	return name != "" && !strings.EqualFold(name, "codex")
}

func typeOf(event []byte) string {
	var typed struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(dataOf(event), &typed) // a comment, or a broken line, has none
	return typed.Type
}

// dataOf is the data of an event: of one line, as the service sends it.
func dataOf(event []byte) []byte {
	for line := range bytes.Lines(event) {
		if data, is := bytes.CutPrefix(line, []byte("data:")); is {
			return data
		}
	}
	return nil
}
