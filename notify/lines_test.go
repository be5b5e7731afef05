package notify

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	var got []string
	w := &lineWriter{each: func(piece string) { got = append(got, piece) }}
	long := strings.Repeat("x", maxLine)
	written := []string{
		"one\ntw", "o\n\nth", "ree", "\n", long + "\n", long + "xxx", "y\n", long[1:] + "ä\n", "no end",
	}
	for _, piece := range written {
		n, err := w.Write([]byte(piece))
		assert.NoError(t, err)
		assert.Equal(t, len(piece), n)
	}
	w.flush()
	want := []string{"one\n", "two\n", "\n", "three\n", long + "\n", long, "xxxy\n", long[1:], "ä\n", "no end"}
	assert.Equal(t, want, got)
}

// The pieces together are the written bytes, for any sequence of writes.
func TestLinesLoseNothing(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			in := stream(random)
			var out strings.Builder
			w := &lineWriter{each: func(piece string) {
				out.WriteString(piece)
				text, _ := strings.CutSuffix(piece, "\n")
				assert.LessOrEqual(t, len(text), maxLine)
				assert.NotContains(t, text, "\n")
				assert.NotEmpty(t, piece)
				if utf8.ValidString(in) {
					assert.True(t, utf8.ValidString(piece), "a character is cut")
				}
			}}
			for left := in; left != ""; {
				n := min(len(left), 1+random.IntN(1<<(1+random.IntN(17))))
				_, err := w.Write([]byte(left[:n]))
				require.NoError(t, err)
				left = left[n:]
			}
			w.flush()
			require.True(t, in == out.String(), "%d bytes in, %d bytes out", len(in), out.Len())
		})
	}
}

// stream is the output of a program: lines of any length, many close to maxLine.
func stream(random *rand.Rand) string {
	alphabet := [][]string{{"x"}, {"x", "ä", "漢", "😀", "\x1b[0m"}, {"x", "\xff", "\x80", "\x00"}}[random.IntN(3)]
	var b strings.Builder
	for range random.IntN(6) {
		length := []int{0, random.IntN(200), maxLine - 4 + random.IntN(9), random.IntN(4 * maxLine)}[random.IntN(4)]
		for end := b.Len() + length; b.Len() < end; {
			b.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		b.WriteString([]string{"\n", "\n", "\r\n", ""}[random.IntN(4)])
	}
	return b.String()
}
