package bed

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

// Entry is one request and its outcome. Its client alone writes it until it has ended,
// except first, which belongs to the ledger.
type Entry struct {
	ID           string
	Stream, Anew bool
	Messages     bool          // of the Messages API, and not a chat
	Lasts        time.Duration // the model's time for it

	Began, Ended time.Time
	First        time.Time // the first byte of the answer's text; for a plain answer, of all of it
	Status       int
	Attempts     int
	retryAfter   time.Duration
	Text         string
	Finish       string
	Code         string // of the error
	message      string // of the error
	retryable    bool   // of the error
	Whole        bool   // the stream ended with [DONE] or message_stop, the plain answer was JSON
	Commented    bool   // the stream has a comment, or the ping of a message
	Refused      bool
	Err          error // of the connection

	ledger *Ledger
}

// pieces is how many parts a streamed answer has, one at once.
const pieces = 5

// Prompt holds the answer's script, and the id in each of its words.
func (e *Entry) Prompt() string {
	if !e.Stream {
		return fmt.Sprintf("%s [[delay %s]][[text %s]]", e.ID, e.Lasts, e.piece(0))
	}
	script := e.ID + " [[text " + e.piece(0) + "]]"
	for i := 1; i < pieces; i++ {
		script += fmt.Sprintf("[[delay %s]][[text %s]]", e.Lasts/(pieces-1), e.piece(i))
	}
	return script
}

func (e *Entry) piece(i int) string { return fmt.Sprintf("%s.%d;", e.ID, i) }

// Want is the text of the whole answer.
func (e *Entry) Want() string {
	if !e.Stream {
		return e.piece(0)
	}
	text := ""
	for i := range pieces {
		text += e.piece(i)
	}
	return text
}

// latency is the time to the first byte without the model's own time.
func (e *Entry) latency() time.Duration {
	if e.Stream {
		return e.First.Sub(e.Began)
	}
	return e.First.Sub(e.Began) - e.Lasts
}

func (e *Entry) String() string {
	return fmt.Sprintf("%s messages=%t stream=%t new=%t lasts=%s began=%s first=%s ended=%s status=%d attempts=%d text=%q "+
		"finish=%q code=%q message=%q whole=%t commented=%t err=%v",
		e.ID, e.Messages, e.Stream, e.Anew, e.Lasts.Round(time.Millisecond), e.Began.Format("05.000"), e.First.Format("05.000"),
		e.Ended.Format("05.000"),
		e.Status, e.Attempts, e.Text, e.Finish, e.Code, e.message, e.Whole, e.Commented, e.Err)
}

// read reads the answer to its end; an error is one of the connection.
func (e *Entry) read(res *http.Response) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(res.Body)
		if err == nil && e.take(body) == nil {
			e.Whole = true
		}
		return err
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok: // a comment, the name of an event, or its end
			e.Commented = e.Commented || strings.HasPrefix(lines.Text(), ":")
		case data == "[DONE]":
			e.Whole = true
		default:
			if err := e.take([]byte(data)); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// take adds a plain answer, a chunk or an error.
func (e *Entry) take(data []byte) error {
	if e.Messages {
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
		if e.Code != "" {
			return errors.New("a second error")
		}
		e.Code, e.message, e.retryable = part.Error.Code, part.Error.Message, part.Error.Retryable
	}
	for _, c := range part.Choices {
		if text := c.Message.Content + c.Delta.Content; text != "" {
			e.ledger.received(e)
			e.Text += text
		}
		e.Finish += c.FinishReason
	}
	return nil
}

// Complete reports whether the client got the exact text, a finish reason, and nothing else.
func (e *Entry) Complete() bool {
	return e.Err == nil && e.Status == http.StatusOK && e.Whole && e.Code == "" &&
		e.Finish == e.OfAPI("stop", "end_turn") && e.Text == e.Want()
}

// Told reports whether the client received an error that permits a retry, in the form that was still
// possible, and nothing that resembles a complete answer. A stream without text had a
// comment, which sent its header before the last of its attempts was lost.
func (e *Entry) Told() bool {
	if e.Err != nil || e.Code == "" || !e.retryable || e.Finish != "" {
		return false
	}
	if e.Status == http.StatusOK {
		return e.Stream && !e.Whole && (e.Text != "" || e.Commented) && strings.HasPrefix(e.Want(), e.Text)
	}
	unavailable := http.StatusServiceUnavailable
	if e.Messages {
		unavailable = Overloaded
	}
	return e.Status == unavailable && e.retryAfter > 0 && e.Text == ""
}

// CutBy reports whether the connection ended with the process that served it, which was killed and
// ended in that period. A client may still use a kept connection in the moment before
// it learns that the connection is dead.
func (e *Entry) CutBy(kill Within) bool {
	const learns = 5 * time.Second // on a busy machine
	late := kill.To
	if !e.Anew {
		late = late.Add(learns)
	}
	return e.Err != nil && !e.Refused && e.Began.Before(late) && e.Ended.After(kill.From) &&
		e.Ended.Before(kill.To.Add(learns))
}
