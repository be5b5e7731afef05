package exec

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"codex-proxy/runner/logs"
)

func TestJournalLines(t *testing.T) {
	var written strings.Builder
	j := newJournalLines(&written)
	j.add(logs.Stdout, []byte("on"))
	j.add(logs.Stderr, []byte("two\nthr"))
	j.add(logs.Stdout, []byte("e\n"))
	assert.Equal(t, "two\none\n", written.String())
	j.finish()
	assert.Equal(t, "two\none\nthr\n", written.String())
	written.Reset()
	j.add(logs.Stdout, []byte(strings.Repeat("x", longestLine+1)))
	assert.Len(t, written.String(), longestLine+2, "a line without an end is written in parts")
	j.finish()
	assert.Len(t, written.String(), longestLine+2)
}

// A journal that takes nothing costs a command a second at most, and says what it has missed when it takes lines again.
func TestStuckJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken bytes.Buffer
		from, to := io.Pipe()
		q := newJournalQueue(to)
		began := time.Now()
		for range journalBacklog + 10 {
			_, _ = q.Write([]byte("line\n"))
		}
		assert.Equal(t, journalPatience, time.Since(began))
		go func() { _, _ = io.Copy(&taken, from) }()
		synctest.Wait()
		_, _ = q.Write([]byte("last\n"))
		q.finish()
		synctest.Wait()
		_ = to.Close()
		synctest.Wait()
		assert.Equal(t, journalPatience, time.Since(began))
		assert.Equal(t, strings.Repeat("line\n", journalBacklog+1)+
			"codex-runner: 9 lines are missing here, as the journal did not take them; the log of the session has them\nlast\n", taken.String())

		hangs := make(stuck)
		defer close(hangs)
		q = newJournalQueue(hangs)
		_, _ = q.Write([]byte("line\n"))
		began = time.Now()
		q.finish()
		assert.Equal(t, journalPatience, time.Since(began), "the end of the command does not wait for it")
	})
}

// stuck takes nothing until it is closed.
type stuck chan struct{}

func (s stuck) Write([]byte) (int, error) {
	<-s
	return 0, io.ErrShortWrite
}
