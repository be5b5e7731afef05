package exec

import (
	"bytes"
	"fmt"
	"io"
	"time"

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

const (
	// journalBacklog is the number of texts, each of a read of a pipe at most, that wait for the journal.
	journalBacklog = 64
	// journalPatience bounds the wait for a journal that takes nothing: the command and its end go on without it.
	journalPatience = time.Second
)

// journalQueue passes texts on to the journal. A slow journal slows the command down; a journal that takes nothing
// misses lines, and gets a line with their number instead. The log of the command has all lines. It belongs to one
// goroutine at a time.
type journalQueue struct {
	texts  chan []byte
	done   chan struct{}
	stuck  bool // the journal has taken nothing for journalPatience
	missed int  // lines since the last text that it took
}

func newJournalQueue(to io.Writer) *journalQueue {
	q := &journalQueue{texts: make(chan []byte, journalBacklog), done: make(chan struct{})}
	go func() {
		defer close(q.done)
		for text := range q.texts {
			_, _ = to.Write(text)
		}
	}()
	return q
}

// Write implements io.Writer, without an error.
func (q *journalQueue) Write(text []byte) (int, error) {
	if len(text) > 0 && !q.offer(append(q.note(), text...)) {
		q.missed += bytes.Count(text, []byte{'\n'})
	}
	return len(text), nil
}

// note is the line about the missed ones.
func (q *journalQueue) note() []byte {
	if q.missed == 0 {
		return nil
	}
	return fmt.Appendf(nil,
		"codex-runner: %d lines are missing here, as the journal did not take them; the log of the session has them\n", q.missed)
}

// offer reports whether the text is in the queue.
func (q *journalQueue) offer(text []byte) bool {
	select {
	case q.texts <- text:
		q.stuck, q.missed = false, 0
		return true
	default:
	}
	if q.stuck {
		return false
	}
	timer := time.NewTimer(journalPatience)
	defer timer.Stop()
	select {
	case q.texts <- text:
		q.missed = 0
		return true
	case <-timer.C:
		q.stuck = true
		return false
	}
}

// finish waits for the journal, no longer than it may take.
func (q *journalQueue) finish() {
	if text := q.note(); text != nil {
		q.offer(text)
	}
	close(q.texts)
	timer := time.NewTimer(journalPatience)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	}
}
