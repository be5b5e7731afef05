package codexhome

import (
	"errors"
	"fmt"
)

// ErrRetry marks a failure that may pass by itself: codex was too slow, or could not fetch an account's policies.
// It never means that the operator's settings are wrong.
var ErrRetry = errors.New("try again")

// Problem is a fault that only an operator can mend. Its text is one line with the place and the remedy.
type Problem struct {
	File string // as the operator knows it; empty when no file is at fault
	Line int    // 0 when unknown
	Text string
	Hint string // the remedy; may be empty
}

func (p *Problem) Error() string {
	text := p.Text
	if p.Hint != "" {
		text += ": " + p.Hint
	}
	switch {
	case p.File == "":
		return text
	case p.Line == 0:
		return p.File + ": " + text
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, text)
}
