package accountscli

import "codex-proxy/internal/listing"

const (
	minBar = 10
	maxBar = 30
	// besideBar is what stands beside a bar in a line, at most.
	besideBar = 62
)

// paper is what the list of accounts is written on.
type paper struct{ listing.Paper }

// bar is how many columns a bar has, without its brackets.
func (p paper) bar() int { return min(maxBar, max(minBar, p.Width-besideBar)) }

// narrow reports whether a reset has no room beside the bar of its window.
func (p paper) narrow() bool { return p.Width < besideBar+minBar }
