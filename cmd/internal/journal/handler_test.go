package journal

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJournalLines(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "8:1234")
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelDebug))
	log.Debug("a")
	log.Info("b", slog.Group("g", "level", 1))
	log.With("k", "v").Warn("c\nd")
	log.WithGroup("g").Error("e", "f", "\n<0>forged")
	assert.Equal(t, []string{
		"<7>msg=a",
		"<6>msg=b g.level=1",
		`<4>msg="c\nd" k=v`,
		`<3>msg=e g.f="\n<0>forged"`,
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}

func TestTerminalLines(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "")
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelWarn))
	log.Info("hidden")
	log.Warn("shown", "n", 1)
	assert.False(t, log.Enabled(context.Background(), slog.LevelInfo))
	assert.Regexp(t, `^time=\S+ level=WARN msg=shown n=1\n$`, out.String())
}

// writes are whole lines, so that lines of several goroutines never mix.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

func TestOneWriteARecord(t *testing.T) {
	t.Setenv("JOURNAL_STREAM", "8:1234")
	var out writes
	log := slog.New(NewHandler(&out, slog.LevelInfo))
	var g sync.WaitGroup
	for i := range 8 {
		derived := log.With("worker", i)
		g.Go(func() {
			for range 100 {
				derived.Info("x")
			}
		})
	}
	g.Wait()
	require.Len(t, out.all, 800)
	for _, line := range out.all {
		assert.Regexp(t, `^<6>msg=x worker=\d\n$`, line)
	}
}
