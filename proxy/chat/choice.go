package chat

import (
	"context"
	"slices"
	"strconv"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/clienttool"
	"codex-proxy/proxy/stopsequence"
	"codex-proxy/proxy/turn"
)

// outputCharge is the memory of an answer; see limits.Output.
type outputCharge interface {
	Reserve(ctx context.Context, bytes int) error
}

// choice is the part of a sink that whole and streamed choices have in common. It belongs
// to the goroutine of its turn.
type choice struct {
	*completion
	outputCharge
	index   int
	report  *turn.Report
	attempt *turn.Attempt

	assembled
}

// assembled is the output of an attempt so far.
type assembled struct {
	stop    *stopsequence.Cutter
	wrote   bool   // more than reasoning
	calls   int    // of the client's tools
	message string // the id of the last message
	item    string // the id of the last item of reasoning
	part    int    // the last paragraph of it
}

// start begins an attempt: the output of the attempt before is void.
func (c *choice) start(a *turn.Attempt) {
	c.attempt, c.assembled = a, assembled{stop: stopsequence.New(c.req.Stop)}
	if c.req.N == 1 {
		c.w.Header().Set("X-Codex-Attempts", strconv.Itoa(a.Number))
	}
}

// commit is called before any output of the choice is sent.
func (c *choice) commit() {
	c.attempt.Commit()
	if c.req.N == 1 {
		c.x.Grant.Body.Release()
	}
}

// ended ends the choice. The only choice of a request is its answer.
func (c *choice) ended() error {
	if c.req.N > 1 {
		return nil
	}
	c.commit()
	return c.finish()
}

// separate separates the messages of an answer, which has room for one: codex lets the
// model write a message before each call of codex's own tools.
func (c *choice) separate(message, delta string) string {
	c.wrote = true
	if delta == "" {
		return delta
	}
	if c.message != "" && c.message != message {
		delta = "\n\n" + delta
	}
	c.message = message
	return delta
}

// separateParts separates the paragraphs of a summary.
func (c *choice) separateParts(item string, part int, delta string) string {
	if c.item != "" && (c.item != item || c.part != part) {
		delta = "\n\n" + delta
	}
	c.item, c.part = item, part
	return delta
}

// callOf is the call of a tool in a finished item. ok is false for other items, and for a
// call of a tool that the client does not have: codex answered that by itself.
func (c *choice) callOf(made appserver.ResponseItem) (call clienttool.Call, ok bool) {
	c.wrote = c.wrote || made.Type != "reasoning"
	if made.Type != "function_call" {
		return call, false
	}
	var item struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
		CallID    string `json:"call_id"`
	}
	if err := made.Decode(&item); err != nil {
		return call, false // a client could not be sent such a call
	}
	i := slices.IndexFunc(c.req.Tools, func(t clienttool.Tool) bool { return t.Wire.Name == item.Name })
	if i < 0 {
		return call, false
	}
	c.calls++
	if c.calls > 1 && c.req.SingleCall {
		return call, false
	}
	return c.req.Tools[i].Call(item.CallID, item.Arguments), true
}

// text adds a piece of a message to the answer, and returns the part of the answer to send now. err is turn.ErrEnough
// at a stop sequence, before which the answer ends.
func (c *choice) text(message, delta string) (text string, err error) {
	text, cut := c.stop.Write(c.separate(message, delta))
	if cut {
		err = turn.ErrEnough
	}
	return text, err
}

// end is the finish_reason of the choice, and the refusal if codex withheld the words of
// the model. Without the refusal such an answer would look like an empty one.
func (c *choice) end(f turn.Finish) (finish, refusal string) {
	if f == turn.Enough && c.calls > 0 { // they precede the stop sequence, and wait for their results
		f = turn.ToolCalls
	}
	finish = answer.Finish(f)
	if f == turn.Stop && !c.wrote && c.calls == 0 && answer.Wrote(c.report.Usage) {
		refusal = answer.Withheld
	}
	if f == turn.ToolCalls && c.req.Legacy {
		finish = openai.FinishFunctionCall
	}
	return finish, refusal
}

// Fail implements turn.Sink: the completion reports the error.
func (c *choice) Fail(_ context.Context, err error) error { return err }
