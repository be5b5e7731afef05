package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// entry is one request and its outcome. Its client alone writes it until it has ended,
// except first, which belongs to the ledger.
type entry struct {
	id           string
	stream, anew bool
	messages     bool          // of the Messages API, and not a chat
	lasts        time.Duration // the model's time for it

	began, ended time.Time
	first        time.Time // the first byte of the answer's text; for a plain answer, of all of it
	status       int
	attempts     int
	retryAfter   time.Duration
	text         string
	finish       string
	code         string // of the error
	message      string // of the error
	retryable    bool   // of the error
	whole        bool   // the stream ended with [DONE] or message_stop, the plain answer was JSON
	commented    bool   // the stream has a comment, or the ping of a message
	refused      bool
	err          error // of the connection

	ledger *ledger
}

// pieces is how many parts a streamed answer has, one at once.
const pieces = 5

// prompt holds the answer's script, and the id in each of its words.
func (e *entry) prompt() string {
	if !e.stream {
		return fmt.Sprintf("%s [[delay %s]][[text %s]]", e.id, e.lasts, e.piece(0))
	}
	script := e.id + " [[text " + e.piece(0) + "]]"
	for i := 1; i < pieces; i++ {
		script += fmt.Sprintf("[[delay %s]][[text %s]]", e.lasts/(pieces-1), e.piece(i))
	}
	return script
}

func (e *entry) piece(i int) string { return fmt.Sprintf("%s.%d;", e.id, i) }

// want is the text of the whole answer.
func (e *entry) want() string {
	if !e.stream {
		return e.piece(0)
	}
	text := ""
	for i := range pieces {
		text += e.piece(i)
	}
	return text
}

// latency is the time to the first byte without the model's own time.
func (e *entry) latency() time.Duration {
	if e.stream {
		return e.first.Sub(e.began)
	}
	return e.first.Sub(e.began) - e.lasts
}

func (e *entry) String() string {
	return fmt.Sprintf("%s messages=%t stream=%t new=%t lasts=%s began=%s first=%s ended=%s status=%d attempts=%d text=%q "+
		"finish=%q code=%q message=%q whole=%t commented=%t err=%v",
		e.id, e.messages, e.stream, e.anew, e.lasts.Round(time.Millisecond), e.began.Format("05.000"), e.first.Format("05.000"),
		e.ended.Format("05.000"),
		e.status, e.attempts, e.text, e.finish, e.code, e.message, e.whole, e.commented, e.err)
}

// read reads the answer to its end; an error is one of the connection.
func (e *entry) read(res *http.Response) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(res.Body)
		if err == nil && e.take(body) == nil {
			e.whole = true
		}
		return err
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok: // a comment, the name of an event, or its end
			e.commented = e.commented || strings.HasPrefix(lines.Text(), ":")
		case data == "[DONE]":
			e.whole = true
		default:
			if err := e.take([]byte(data)); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// take adds a plain answer, a chunk or an error.
func (e *entry) take(data []byte) error {
	if e.messages {
		return e.takeMessage(data)
	}
	var part struct {
		Choices []struct {
			Message, Delta struct{ Content string }
			FinishReason   string `json:"finish_reason"`
		}
		Error struct {
			Code      string
			Message   string
			Retryable bool
		}
	}
	if err := json.Unmarshal(data, &part); err != nil {
		return fmt.Errorf("%q: %w", data, err)
	}
	if part.Error.Code != "" {
		if e.code != "" {
			return errors.New("a second error")
		}
		e.code, e.message, e.retryable = part.Error.Code, part.Error.Message, part.Error.Retryable
	}
	for _, c := range part.Choices {
		if text := c.Message.Content + c.Delta.Content; text != "" {
			e.ledger.received(e)
			e.text += text
		}
		e.finish += c.FinishReason
	}
	return nil
}

// complete: the exact text, a finish reason, and nothing else.
func (e *entry) complete() bool {
	return e.err == nil && e.status == http.StatusOK && e.whole && e.code == "" &&
		e.finish == e.ofAPI("stop", "end_turn") && e.text == e.want()
}

// told: the client received an error that permits a retry, in the form that was still
// possible, and nothing that resembles a complete answer. A stream without text had a
// comment, which sent its header before the last of its attempts was lost.
func (e *entry) told() bool {
	if e.err != nil || e.code == "" || !e.retryable || e.finish != "" {
		return false
	}
	if e.status == http.StatusOK {
		return e.stream && !e.whole && (e.text != "" || e.commented) && strings.HasPrefix(e.want(), e.text)
	}
	unavailable := http.StatusServiceUnavailable
	if e.messages {
		unavailable = overloaded
	}
	return e.status == unavailable && e.retryAfter > 0 && e.text == ""
}

// usedUp: the account's quota ran out after the client had received text, which ends the stream with that error.
func (e *entry) usedUp() bool {
	return e.err == nil && e.status == http.StatusOK && e.stream && !e.whole && e.finish == "" && e.text != "" &&
		e.code == e.ofAPI("usage_limit_reached", "rate_limit_error")
}

// cutBy: the connection ended with the process that served it, which was killed and
// ended in that period. A client may still use a kept connection in the moment before
// it learns that the connection is dead.
func (e *entry) cutBy(kill within) bool {
	const learns = 5 * time.Second // on a busy machine
	late := kill.to
	if !e.anew {
		late = late.Add(learns)
	}
	return e.err != nil && !e.refused && e.began.Before(late) && e.ended.After(kill.from) &&
		e.ended.Before(kill.to.Add(learns))
}
