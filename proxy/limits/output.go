package limits

import "context"

const (
	// perOutput is the memory that a byte of an answer takes until the answer has ended: as it arrives, in the items of
	// the turn, and in the answer.
	perOutput = 3
	// freeOutput is the memory of an answer that is not charged. Most answers take less.
	freeOutput = 64 << 10
	// outputStep is how much is charged at a time.
	outputStep = 64 << 10
)

// Output is the memory that an answer in the making is charged for. It belongs to one
// goroutine.
type Output struct {
	held  Held
	bytes int64
}

// Reserve charges n more bytes of the answer. It waits while there is no room for them;
// the error is an *openai.Error, or the cause of ctx.
func (o *Output) Reserve(ctx context.Context, n int) error {
	o.bytes += perOutput * int64(n)
	missing := o.bytes - freeOutput - o.held.wanted
	if missing <= 0 || o.held.memory == nil {
		return nil
	}
	return o.held.extend(ctx, max(missing, outputStep))
}

// Release releases all bytes.
func (o *Output) Release() { o.held.Release() }

// Another creates an empty charge for another answer to the same request.
func (o *Output) Another() Output { return Output{held: o.held.Another()} }
