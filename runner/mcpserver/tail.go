package mcpserver

import (
	"strings"
	"unicode/utf8"

	"codex-proxy/runner/logs"
)

const (
	defaultOutput = 16 << 10 // of an answer, in bytes
	minOutput     = 256
	maxOutput     = 256 << 10
)

// part is a piece of the output of a command.
type part struct {
	From int64  `json:"output_from" jsonschema:"the offset of the first byte of output"`
	Next int64  `json:"next_offset" jsonschema:"the offset behind output: since_offset of the call of logs that goes on"`
	Text string `json:"output" jsonschema:"standard output and error in their order; bytes that are not UTF-8 are shown as �"`
}

// tail keeps the last bytes of the output that passes.
type tail struct {
	keep int
	data []byte
	end  int64 // the offset behind the data
}

func (t *tail) add(c logs.Chunk) {
	t.data, t.end = append(t.data, c.Data...), c.End()
	if len(t.data) > 2*t.keep {
		t.data = append(t.data[:0], t.data[len(t.data)-t.keep:]...)
	}
}

// part returns the kept bytes. It leaves out a character that is cut at its beginning and, unless the command has
// ended, one that is cut at its end.
func (t *tail) part(ended bool) part {
	data := t.data[max(0, len(t.data)-t.keep):]
	from := t.end - int64(len(data))
	if from > 0 {
		skip := 0
		for skip < min(utf8.UTFMax-1, len(data)) && !utf8.RuneStart(data[skip]) {
			skip++
		}
		if skip < len(data) {
			data, from = data[skip:], from+int64(skip)
		}
	}
	next := t.end
	if !ended {
		if cut := incomplete(data); cut < len(data) {
			data, next = data[:len(data)-cut], next-int64(cut)
		}
	}
	return part{From: from, Next: next, Text: strings.ToValidUTF8(string(data), "�")}
}

// incomplete is how many bytes at the end of data begin a character that needs more of them.
func incomplete(data []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(data)); n++ {
		if last := data[len(data)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
