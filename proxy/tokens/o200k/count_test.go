package o200k

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vector is a text and its tokens by tiktoken.
type vector struct {
	Text   string
	Tokens int64
}

// UnmarshalJSON reads a line of vectors.jsonl: [text, tokens].
func (v *vector) UnmarshalJSON(line []byte) error {
	return json.Unmarshal(line, &[]any{&v.Text, &v.Tokens})
}

func vectors(t testing.TB) (list []vector) {
	t.Helper()
	file, err := os.Open("testdata/vectors.jsonl")
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v vector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		list = append(list, v)
	}
	require.NoError(t, lines.Err())
	return list
}

// The vectors are of tiktoken 0.14: random texts of characters that the expression tells apart, and files.
func TestCountsOfTiktoken(t *testing.T) {
	list := vectors(t)
	require.Greater(t, len(list), 1500)
	for _, v := range list {
		got, err := Count(t.Context(), v.Text)
		require.NoError(t, err)
		assert.Equal(t, v.Tokens, got, "%q", v.Text)
	}
}

// Also by tiktoken: texts of one piece, or of many equal ones.
func TestCountsOfLongTexts(t *testing.T) {
	for _, tc := range []struct {
		text   string
		times  int
		tokens int64
	}{
		{"a", 10000, 1250},
		{"ab", 16000, 8000},
		{"0123456789", 1000, 3334},
		{" ", 5000, 40},
		{"\n", 3000, 188},
		{" \n", 2000, 1000},
		{"!?", 8000, 4002},
		{"中", 4000, 4000},
		{"AZ", 9000, 9000},
		{"qwxz", 20000, 60000},
		{"é", 3000, 3000},
		{"Zm9vYmFy/+", 4000, 24000},
	} {
		got, err := Count(t.Context(), strings.Repeat(tc.text, tc.times))
		require.NoError(t, err)
		assert.InDelta(t, tc.tokens, got, float64(tc.times*len(tc.text)/maxPiece), "%q, %d times", tc.text, tc.times)
	}
}

// A cut text has about as many tokens as its parts, and no text has more tokens than bytes.
func FuzzCount(f *testing.F) {
	for _, v := range vectors(f)[:200] {
		f.Add(v.Text, len(v.Text)/2)
	}
	f.Add("\xff\xfe'\xc5", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		whole, err := Count(t.Context(), text)
		require.NoError(t, err)
		assert.LessOrEqual(t, whole, int64(len(text)))
		assert.GreaterOrEqual(t, whole*longest, int64(len(text)))
		at = min(max(at, 0), len(text))
		size := 0
		for size < len(text) {
			n := first(text[size:])
			require.Positive(t, n)
			size += n
		}
		require.Equal(t, len(text), size)
		before, err := Count(t.Context(), text[:at])
		require.NoError(t, err)
		after, err := Count(t.Context(), text[at:])
		require.NoError(t, err)
		assert.LessOrEqual(t, whole, before+after+2*longest)
	})
}

func TestCountEnds(t *testing.T) {
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := Count(ctx, strings.Repeat("words ", 1<<20))
	require.ErrorIs(t, err, gone)
}

// Counts wait for each other slice by slice, and a wait ends with its context.
func TestCountsTakeTurns(t *testing.T) {
	shared.turns <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := Count(ctx, "hello")
		ended <- err
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	<-shared.turns
	n, err := Count(t.Context(), "hello world")
	require.NoError(t, err)
	assert.EqualValues(t, 2, n)
}

// The vocabulary is dropped a minute after the last count.
func TestVocabularyIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newTokenizer()
		after := func(d time.Duration) *merger {
			<-time.After(d)
			v.turns <- struct{}{}
			defer func() { <-v.turns }()
			return v.merger
		}
		_, err := v.count(t.Context(), "hello")
		require.NoError(t, err)
		assert.NotNil(t, after(rest-time.Second))
		_, err = v.count(t.Context(), "hello")
		require.NoError(t, err)
		assert.NotNil(t, after(rest-time.Second))
		assert.Nil(t, after(2*time.Second))
	})
}

// A vocabulary takes as much memory as the package's documentation has it.
func TestMemoryOfVocabulary(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	words, err := load()
	require.NoError(t, err)
	after := heap()
	assert.InDelta(t, 3.3, float64(after-before)/(1<<20), 0.3)
	runtime.KeepAlive(words)
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		_, err := load()
		require.NoError(b, err)
	}
}

func BenchmarkCount(b *testing.B) {
	source, err := os.ReadFile("count_test.go")
	require.NoError(b, err)
	for name, text := range map[string]string{
		"source":     strings.Repeat(string(source), 200),
		"letters":    strings.Repeat("qwxzkjvb", 1<<17),
		"one letter": strings.Repeat("a", 1<<20),
		"spaces":     strings.Repeat(" ", 1<<20),
		"signs":      strings.Repeat("!?", 1<<19),
		"marks":      strings.Repeat("\u0301A", 1<<19),
		"base64":     strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", 1<<14),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, err := Count(b.Context(), text)
				require.NoError(b, err)
			}
		})
	}
}
