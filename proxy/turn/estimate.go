package turn

import (
	"bytes"
	"context"
	"errors"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/proxy/tokens"
)

// codex reports the tokens of a turn at its end. It reports none for a turn that ended by a stop sequence, its client,
// a timeout or the death of its worker: the API key is charged for the input and the delivered output, counted here.
const (
	// held is how many bytes of the input, and of the output, are kept until the end to be counted then. An answer that
	// ends with codex's own count costs no more than that memory.
	held = 32 << 10
	// perToken is how many bytes beyond that count as a token, the rule of thumb of OpenAI for English texts.
	perToken = 4
	// perImage are the tokens of an image in a longer input: of a screenshot of 1080 rows, as codex scales it.
	perImage = 2000
	// estimateTimeout bounds the counting, for which a client may wait; then the rule of thumb holds.
	estimateTimeout = 200 * time.Millisecond
)

// estimate is the use of a turn as far as it is known without codex. It belongs to the goroutine of Run.
type estimate struct {
	began     bool                  // codex has the turn
	committed bool                  // the input is known
	input     appserver.TurnRequest // the whole input, if it is short
	rough     int64                 // tokens of the input by the rule of thumb
	text      []byte                // the beginning of the output
	more      int64                 // bytes of output behind it
}

// commit keeps the needed parts of a request before its items are released; images is whether the items have some.
func (e *estimate) commit(turn *appserver.TurnRequest, images bool) {
	size := len(turn.OutputSchema)
	for _, item := range turn.Items {
		size += len(item)
	}
	for _, tool := range turn.Tools {
		size += len(tool.Name) + len(tool.Description) + len(tool.InputSchema)
	}
	if turn.BaseInstructions != nil {
		size += len(*turn.BaseInstructions)
	}
	items := turn.Items
	if !images {
		items = nil // a search of 500 KB takes 0.2 ms
	}
	e.committed, e.rough = true, roughly(size, items)
	if size <= held {
		e.input = *turn
	}
}

// roughly is the number of tokens of an input with its images in items, without a look at each of its words.
func roughly(size int, items []history.Item) (tokens int64) {
	if size == 0 {
		return 0
	}
	mark := []byte(`"image_url":"data:`)
	for _, item := range items {
		for rest := []byte(item); ; {
			at := bytes.Index(rest, mark)
			if at < 0 {
				break
			}
			rest = rest[at+len(mark):]
			end := max(0, bytes.IndexByte(rest, '"'))
			size, tokens, rest = size-end, tokens+perImage, rest[end:]
		}
	}
	return tokens + int64(size)/perToken + 1
}

// delivered adds a piece of output.
func (e *estimate) delivered(text string) {
	if kept := min(len(text), held-len(e.text)); kept > 0 {
		e.text, text = append(e.text, text[:kept]...), text[kept:]
	}
	e.more += int64(len(text))
}

// counted forgets output that codex has counted.
func (e *estimate) counted() { e.text, e.more = e.text[:0], 0 }

// output is the tokens of the output since codex's last count: of the words that are kept, if they are to be exact.
func (e *estimate) output(ctx context.Context, exact bool) int64 {
	if len(e.text) == 0 {
		return 0
	}
	if exact {
		if n, err := tokens.Count(ctx, string(e.text)); err == nil {
			return n + e.more/perToken
		}
	}
	return (int64(len(e.text))+e.more)/perToken + 1
}

// inputTokens are the tokens of the input that commit has kept.
func (e *estimate) inputTokens(ctx context.Context, exact bool) int64 {
	if exact && len(e.input.Items) > 0 {
		if n, err := tokens.Turn(ctx, &e.input); err == nil {
			return n
		}
	}
	return e.rough
}

// charge estimates the usage of a turn that ended with err and without codex's count, if it cost something: the client
// has had output, or left while the model was at work. It counts once.
func (t *run) charge(ctx context.Context, err error) {
	e := t.estimate
	t.estimate = estimate{}
	if !e.began {
		return
	}
	cost := len(e.text) > 0 || ctx.Err() != nil || errors.Is(err, ErrEnough) || errors.Is(err, ErrClientGone)
	if t.Report.Usage == nil && !cost {
		return
	}
	// A client that waits for an error gets it at once: the words are counted only if the vocabulary is there. A
	// service that stops must not load it first.
	exact := errors.Is(err, ErrEnough) || errors.Is(err, ErrClientGone) || tokens.Loaded()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), estimateTimeout)
	defer cancel()
	used := appserver.Usage{OutputTokens: e.output(ctx, exact)}
	if t.Report.Usage == nil {
		if !e.committed {
			e.commit(t.Turn, t.Decoding > 0)
		}
		used.InputTokens = e.inputTokens(ctx, exact)
	}
	used.TotalTokens = used.InputTokens + used.OutputTokens
	if t.Report.Usage != nil { // of the responses of the model before the last one
		used = t.Report.Usage.Plus(used)
	}
	t.Report.Usage = &used
}
