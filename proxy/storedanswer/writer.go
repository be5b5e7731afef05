package storedanswer

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"codex-proxy/internal/cause"
	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
)

// Writer sends answers. All fields are required.
type Writer struct {
	Answers *answer.Writer
	Logger  *slog.Logger
}

// Piece is a piece of an answer: text, or stored bytes.
type Piece struct {
	Text   string
	Stored *Bytes // nil: it is the text
}

// Send sends an answer that is mostly stored. Nothing is sent before the first stored bytes have been read, of all
// pieces if they are few: the error of a deleted piece is stored.ErrNotFound, and cuts off no answer.
func (a *Writer) Send(w http.ResponseWriter, r *http.Request, x *proxy.Exchange, pieces ...Piece) error {
	size, read := int64(0), int64(0)
	for _, p := range pieces {
		size += int64(len(p.Text))
		if p.Stored == nil {
			continue
		}
		defer p.Stored.close()
		size += p.Stored.Size
		if read += p.Stored.Size; read > minHeld && read > p.Stored.Size {
			continue
		}
		if err := p.Stored.begin(r.Context()); err != nil {
			return cause.Of(r.Context(), err)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	for _, p := range pieces {
		err := a.Answers.Write(w, []byte(p.Text))
		if err == nil && p.Stored != nil {
			err = cause.Of(r.Context(), a.sendStored(r.Context(), w, p.Stored))
			p.Stored.close()
		}
		if err != nil {
			return a.cutOff(x, err)
		}
	}
	return nil
}

// cutOff ends the connection of an answer that cannot be sent to its end.
func (a *Writer) cutOff(x *proxy.Exchange, err error) error {
	if proxy.ClientGone(err) {
		return err
	}
	a.Logger.Error("request failed", "request_id", x.ID, "error", err)
	x.Outcome = "cut_off"
	panic(http.ErrAbortHandler)
}

func (a *Writer) sendStored(ctx context.Context, w http.ResponseWriter, b *Bytes) error {
	for from := int64(0); from < b.Size; {
		part, err := b.next(ctx, from)
		if err != nil {
			return err
		}
		slow := time.AfterFunc(patience, b.drop)
		err = a.Answers.Write(w, part)
		slow.Stop()
		if err != nil {
			return err
		}
		from += int64(len(part))
	}
	return nil
}
