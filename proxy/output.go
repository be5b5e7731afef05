package proxy

import "context"

const (
	// perOutput is what a byte of an answer takes until the answer has ended: as it
	// comes, in the items of the turn, and in the answer.
	perOutput = 3
	// freeOutput is how much of it is not counted, which is more than most answers have.
	freeOutput = 64 << 10
	// outputStep is how much is counted at a time.
	outputStep = 256 << 10
)

// grow counts n more bytes of the answer. It waits when there is no room for them.
func (x *exchange) grow(ctx context.Context, n int) error {
	x.output += perOutput * int64(n)
	missing := x.output - freeOutput - x.made.wanted
	if missing <= 0 || x.made.memory == nil {
		return nil
	}
	return x.made.extend(ctx, max(missing, outputStep))
}
