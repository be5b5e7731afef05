package turn

import (
	"bytes"
	"context"
	"errors"
	"time"

	"codex-proxy/proxy/appserver"
	"codex-proxy/proxy/appserver/history"
	"codex-proxy/proxy/tokens"
)

// codex reports the tokens of a turn at its end. A turn that a stop sequence, its client, a timeout or the death of its
// worker has ended has none, and would cost its API key nothing: so what was delivered is counted, and the input.
const (
	// held is how many bytes of the input, and of the output, are kept until the end to be counted then. An answer that
	// ends with codex's own count costs no more than that memory.
	held = 64 << 10
	// perToken is how many bytes of a longer input count as a token, the rule of thumb of OpenAI for English texts.
	perToken = 4
	// perImage are the tokens of an image in a longer input: of a screenshot of 1080 rows, as codex scales it.
	perImage = 2000
	// estimateTimeout bounds the counting.
	estimateTimeout = 5 * time.Second
)

// estimate is what a turn has used as far as it is known without codex. It belongs to the goroutine of Run.
type estimate struct {
	began  bool                  // codex has the turn
	input  appserver.TurnRequest // the whole input, if it is short
	tokens int64                 // of the input, if it is not
	text   []byte                // output that is not counted yet
	output int64                 // tokens of the rest
}

// commit keeps what is needed of a request whose items are released.
func (e *estimate) commit(turn *appserver.TurnRequest) {
	size := 0
	for _, item := range turn.Items {
		size += len(item)
	}
	if turn.BaseInstructions != nil {
		size += len(*turn.BaseInstructions)
	}
	if size <= held {
		e.input = *turn
		return
	}
	e.tokens = roughly(size, turn.Items)
}

// roughly is the number of tokens of a long input, without a look at each of its words.
func roughly(size int, items []history.Item) (tokens int64) {
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
	return tokens + int64(size)/perToken
}

// delivered adds a piece of output.
func (e *estimate) delivered(ctx context.Context, text string) {
	if e.text = append(e.text, text...); len(e.text) > held {
		e.count(ctx)
	}
}

// count counts the output so far. An error leaves the rule of thumb.
func (e *estimate) count(ctx context.Context) {
	if len(e.text) == 0 {
		return
	}
	n, err := tokens.Count(ctx, string(e.text))
	if err != nil {
		n = int64(len(e.text)) / perToken
	}
	e.output, e.text = e.output+n, e.text[:0]
}

// usage is the estimate of what the turn used. turn is its request, unless that is released.
func (e *estimate) usage(ctx context.Context, turn *appserver.TurnRequest) *appserver.Usage {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), estimateTimeout)
	defer cancel()
	e.count(ctx)
	if e.tokens == 0 && len(e.input.Items) == 0 {
		e.commit(turn)
	}
	input := e.tokens
	if input == 0 {
		var err error
		if input, err = tokens.Turn(ctx, &e.input); err != nil {
			input = 0
		}
	}
	return &appserver.Usage{InputTokens: input, OutputTokens: e.output, TotalTokens: input + e.output}
}

// rest is what came after codex's last count.
func (e *estimate) rest(ctx context.Context) *appserver.Usage {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), estimateTimeout)
	defer cancel()
	e.count(ctx)
	return &appserver.Usage{OutputTokens: e.output, TotalTokens: e.output}
}

// charge estimates the usage of a turn that ended with err and without codex's count, if it cost something: the client
// has had output, or left while the model was at work.
func (t *run) charge(ctx context.Context, err error) {
	e := &t.estimate
	switch {
	case !e.began:
		return
	case t.Report.Usage != nil: // of the responses before the last one
		sum := t.Report.Usage.Plus(*e.rest(ctx))
		t.Report.Usage = &sum
		return
	}
	if len(e.text) > 0 || e.output > 0 || ctx.Err() != nil || errors.Is(err, ErrEnough) || errors.Is(err, ErrClientGone) {
		t.Report.Usage = e.usage(ctx, t.Turn)
	}
}
