package contract

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds a line of a stream: an event can hold a whole answer.
const maxLine = 256 << 20

// event is one server-sent event, see "Server-sent events" of the HTML
// standard: lines up to an empty one.
type event struct {
	name string // of the line "event:"; may be empty
	data []byte
}

// events calls do for every event of a stream. Comments count as no event. A
// stream that ends amid an event is an error.
func events(from io.Reader, do func(event) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var e event
	open := false
	for lines.Scan() {
		line := lines.Bytes()
		switch {
		case len(line) == 0 && e.data != nil:
			if err := do(e); err != nil {
				return err
			}
			e, open = event{}, false
		case len(line) == 0 && open:
			return fmt.Errorf("event %q has no data", e.name)
		case len(line) == 0, line[0] == ':':
		case bytes.HasPrefix(line, []byte("event: ")) && !open:
			e.name, open = strings.TrimPrefix(string(line), "event: "), true
		case bytes.HasPrefix(line, []byte("data: ")) && e.data == nil:
			e.data, open = bytes.Clone(bytes.TrimPrefix(line, []byte("data: "))), true
		default:
			return fmt.Errorf("no line of an event stream: %s", excerpt(line))
		}
	}
	if open {
		return fmt.Errorf("the stream ends amid an event: %s", excerpt(e.data))
	}
	return lines.Err()
}
