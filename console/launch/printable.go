package launch

import (
	"io"
	"strings"

	"codex-proxy/internal/listing"
)

// maxSaid bounds the output of the server, in bytes.
const maxSaid = 64 << 10

// printable passes on the lines of the server without control characters, which a terminal would obey. As it is no
// file, the server gets a pipe in place of the terminal.
type printable struct {
	to   io.Writer
	left int
}

// Write implements io.Writer.
func (p *printable) Write(text []byte) (int, error) {
	shown := text[:min(len(text), p.left)]
	p.left -= len(shown)
	lines := strings.Split(string(shown), "\n")
	for i := range lines {
		lines[i] = listing.Printable(lines[i])
	}
	if _, err := io.WriteString(p.to, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
}
