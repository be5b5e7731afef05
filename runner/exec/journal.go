package exec

import (
	"bytes"
	"io"

	"codex-proxy/runner/logs"
)

// longestLine is the longest part of a line that a journalLines keeps: the journal cuts longer ones, too (LineMax= of
// journald.conf(5)).
const longestLine = 32 << 10

// journalLines writes the output of a command as whole lines, so that its streams do not mix within a line. It belongs
// to one goroutine at a time.
type journalLines struct {
	to      io.Writer
	partial map[logs.Stream][]byte
}

func newJournalLines(to io.Writer) *journalLines {
	return &journalLines{to: to, partial: map[logs.Stream][]byte{}}
}

// add writes the lines that end in added. It ignores errors: the log of the command has the lines, too.
func (j *journalLines) add(stream logs.Stream, added []byte) {
	text := append(j.partial[stream], added...)
	end := bytes.LastIndexByte(text, '\n') + 1
	if len(text)-end > longestLine {
		end = len(text)
	}
	_, _ = j.to.Write(terminated(text[:end]))
	j.partial[stream] = append(text[:0], text[end:]...)
}

// finish writes the lines without an end.
func (j *journalLines) finish() {
	for stream, text := range j.partial {
		_, _ = j.to.Write(terminated(text))
		delete(j.partial, stream)
	}
}

// terminated is text with a newline at its end, if there is any.
func terminated(text []byte) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return append(bytes.Clone(text), '\n')
	}
	return text
}
