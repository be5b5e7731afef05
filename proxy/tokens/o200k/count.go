package o200k

import (
	"context"
	"time"
)

const (
	// slice is how much text is counted at a time, which takes a few milliseconds.
	slice = 64 << 10
	// rest is how long after the last count the vocabulary is dropped.
	rest = time.Minute
)

// shared counts for all callers.
var shared = newTokenizer()

// tokenizer counts with a vocabulary that it loads for the first count and drops when it rests.
type tokenizer struct {
	// turns lets one count run at a time, slice by slice: so all counts together take one processor, and a short text
	// waits for a slice of each longer one. Its holder has the fields below.
	turns  chan struct{}
	merger *merger // nil: not loaded
	used   time.Time
}

func newTokenizer() *tokenizer { return &tokenizer{turns: make(chan struct{}, 1)} }

// Count is the number of tokens of a text. A text that looks like a special token is a text. The error is the cause of
// ctx.
func Count(ctx context.Context, text string) (tokens int64, err error) {
	return shared.count(ctx, text)
}

func (t *tokenizer) count(ctx context.Context, text string) (tokens int64, err error) {
	for c := (counter{text: text}); c.more(); tokens += c.counted {
		select {
		case t.turns <- struct{}{}:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		c.count(t.loaded())
		<-t.turns
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return tokens, nil
}

// Loaded reports whether Count has its vocabulary, which takes a tenth of a second to load, and is dropped when nothing
// counts for a while. It is false while another count is at work.
func Loaded() bool { return shared.ready() }

func (t *tokenizer) ready() bool {
	select {
	case t.turns <- struct{}{}:
		defer func() { <-t.turns }()
		return t.merger != nil
	default:
		return false
	}
}

// counter counts a text slice by slice.
type counter struct {
	piece   string // the rest of the piece that was begun
	text    string // the text after it
	counted int64  // the tokens of the last slice
}

func (c *counter) more() bool { return c.piece != "" || c.text != "" }

// count counts the next slice.
func (c *counter) count(m *merger) {
	c.counted = 0
	for size := 0; size < slice && c.more(); {
		if c.piece == "" {
			n := first(c.text)
			c.piece, c.text = c.text[:n], c.text[n:]
		}
		n := min(len(c.piece), maxPiece)
		c.counted += m.count(c.piece[:n])
		c.piece, size = c.piece[n:], size+n
	}
}

// loaded is the merger with the vocabulary, which stays for a while.
func (t *tokenizer) loaded() *merger {
	if t.merger == nil {
		words, err := load()
		if err != nil { // the program is broken
			panic(err)
		}
		t.merger = &merger{words: words}
		time.AfterFunc(rest, t.drop)
	}
	t.used = time.Now()
	return t.merger
}

// drop drops the vocabulary when it has not been used for a while.
func (t *tokenizer) drop() {
	t.turns <- struct{}{}
	defer func() { <-t.turns }()
	if left := rest - time.Since(t.used); left > 0 {
		time.AfterFunc(left, t.drop)
		return
	}
	t.merger = nil
}
