package tokens

import (
	"context"
	"fmt"

	"codex-proxy/codex/appserver"
	"codex-proxy/proxy/tokens/o200k"
)

const (
	// perMessage are the tokens around a message: its begin, the begin of its text, its end. Its role is another one.
	perMessage = 3
	// perTurn are the tokens with which the answer begins.
	perTurn = 2
	// perTools are the tokens of the message that tools are in.
	perTools = 9
)

// Count is the number of tokens of a text. The error is the cause of ctx.
func Count(ctx context.Context, text string) (int64, error) { return o200k.Count(ctx, text) }

// Loaded reports whether Count begins at once, without loading its vocabulary.
func Loaded() bool { return o200k.Loaded() }

// Turn estimates the tokens of a turn's input: of everything that the model gets. The error is the cause of ctx, unless
// the turn is not as package history makes it.
func Turn(ctx context.Context, turn *appserver.TurnRequest) (int64, error) {
	s := sum{tokens: perTurn}
	if text := turn.BaseInstructions; text != nil && *text != "" {
		s.message(ctx, "developer", *text)
	}
	for _, raw := range turn.Items {
		if err := s.item(ctx, raw); err != nil {
			return 0, fmt.Errorf("cannot count an item: %w", err)
		}
	}
	if err := s.definitions(ctx, turn); err != nil {
		return 0, fmt.Errorf("cannot count the tools: %w", err)
	}
	return s.tokens, s.err
}

const (
	// perSchemaByte is the memory that a byte of a schema takes decoded, at most.
	perSchemaByte = 100
	// perLine is the memory that the frame of a line of a description takes.
	perLine = 4
	// perItemByte is the memory that a byte of an item takes: of an image, twice as base64, and decoded.
	perItemByte = 3
)

// Memory is how many bytes Turn needs in addition to the turn: for a copy of the longest item, or the largest tool.
func Memory(turn *appserver.TurnRequest) (bytes int64) {
	bytes = int64(len(turn.OutputSchema))
	for _, item := range turn.Items {
		bytes = max(bytes, perItemByte*int64(len(item)))
	}
	for _, t := range turn.Tools {
		bytes = max(bytes, perSchemaByte*int64(len(t.InputSchema))+int64(commented(t.Description)))
	}
	return bytes
}

// sum adds up tokens until its first error, which is the cause of a context.
type sum struct {
	tokens int64
	err    error
}

func (s *sum) text(ctx context.Context, texts ...string) {
	for _, text := range texts {
		if s.err != nil {
			return
		}
		var n int64
		n, s.err = Count(ctx, text)
		s.tokens += n
	}
}

// message adds a message of that role.
func (s *sum) message(ctx context.Context, role string, texts ...string) {
	s.tokens += perMessage
	s.text(ctx, role)
	s.text(ctx, texts...)
}
