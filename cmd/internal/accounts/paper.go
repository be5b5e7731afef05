package accounts

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"codex-proxy/cmd/internal/cli"
)

const (
	// plainWidth is the width of what is no terminal.
	plainWidth = 100
	minBar     = 10
	maxBar     = 30
	// besideBar is what stands beside a bar in a line, at most.
	besideBar = 62
)

// paper is what a list is written on.
type paper struct {
	width  int // in columns
	colour bool
}

// paperOf is the terminal, or what stands for one. NO_COLOR is that of no-color.org.
func paperOf(w io.Writer) paper {
	p := paper{width: plainWidth}
	f, ok := w.(*os.File)
	if !ok || !cli.IsTerminal(w) {
		return p
	}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		p.width = int(size.Col)
	}
	p.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p
}

// bar is how many columns a bar has, without its brackets.
func (p paper) bar() int { return min(maxBar, max(minBar, p.width-besideBar)) }

// narrow reports whether a reset has no room beside the bar of its window.
func (p paper) narrow() bool { return p.width < besideBar+minBar }

// The colours, as parameters of SGR (ECMA-48).
const (
	green  = "32"
	yellow = "33"
	red    = "31"
	bold   = "1"
)

// in is text in a colour, if the paper has colours.
func (p paper) in(colour, text string) string {
	if !p.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
