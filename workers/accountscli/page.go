package accountscli

import "codex-proxy/internal/listing"

const (
	minBar = 10
	maxBar = 30
	// besideBar is the greatest width of the text next to a bar in a line.
	besideBar = 62
)

// page is the output of the list of accounts.
type page struct{ listing.Paper }

// bar is how many columns a bar has, without its brackets.
func (p page) bar() int { return min(maxBar, max(minBar, p.Width-besideBar)) }

// narrow reports whether a reset has no room next to the bar of its window.
func (p page) narrow() bool { return p.Width < besideBar+minBar }
