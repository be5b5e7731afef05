package listing

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"codex-proxy/internal/cli"
)

// PlainWidth is the width of a Paper that is no terminal, in columns.
const PlainWidth = 100

// Paper is the page for a list.
type Paper struct {
	Width  int // in columns
	Colour bool
}

// PaperOf is the paper for w: as wide as a terminal, else PlainWidth. NO_COLOR has the meaning of no-color.org.
func PaperOf(w io.Writer) Paper {
	p := Paper{Width: PlainWidth}
	f, ok := w.(*os.File)
	if !ok || !cli.IsTerminal(w) {
		return p
	}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		p.Width = int(size.Col)
	}
	p.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p
}

// The colours, as parameters of SGR (ECMA-48).
const (
	Green  = "32"
	Yellow = "33"
	Red    = "31"
	Bold   = "1"
)

// In is text in a colour, if the paper has colours.
func (p Paper) In(colour, text string) string {
	if !p.Colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
