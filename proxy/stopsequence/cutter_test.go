package stopsequence

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// written is what a cutter sends for the pieces of a text.
func written(t testing.TB, sequences, pieces []string) (sent []string, cut bool) {
	t.Helper()
	c := New(sequences)
	for _, piece := range pieces {
		var text string
		text, cut = c.Write(piece)
		if sent = append(sent, text); cut {
			return sent, true
		}
	}
	return append(sent, c.Rest()), false
}

func TestCutter(t *testing.T) {
	for _, c := range []struct {
		name              string
		sequences, pieces []string
		sent              []string
		cut               bool
	}{
		{"no sequence", nil, []string{"a", "b"}, []string{"a", "b", ""}, false},
		{"not in the text", []string{"x"}, []string{"a", "b"}, []string{"a", "b", ""}, false},
		{"in one piece", []string{"x"}, []string{"abxc"}, []string{"ab"}, true},
		{"at the beginning", []string{"ab"}, []string{"abc"}, []string{""}, true},
		{"across pieces", []string{"\nObservation:"}, []string{"I act.\n", "Obs", "ervation", ": 4"},
			[]string{"I act.", "", "", ""}, true},
		{"a beginning that does not go on", []string{"\nObservation:"}, []string{"a\n", "Obs", "olete"},
			[]string{"a", "", "\nObsolete", ""}, false},
		{"a beginning at the end", []string{"END"}, []string{"the EN"}, []string{"the ", "EN"}, false},
		{"a beginning within a beginning", []string{"aab"}, []string{"aa", "a", "b"}, []string{"", "a", ""}, true},
		{"the sequence that is complete first", []string{"bcde", "c"}, []string{"abcde"}, []string{"ab"}, true},
		{"likewise, in other pieces", []string{"bcde", "c"}, []string{"ab", "c"}, []string{"a", "b"}, true},
		{"the longest that ends there", []string{"c", "bc"}, []string{"abc"}, []string{"a"}, true},
		{"whole characters", []string{"é!"}, []string{"è", "é", "è", "é", "!"}, []string{"è", "", "éè", "", ""}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent, cut := written(t, c.sequences, c.pieces)
			assert.Equal(t, c.sent, sent)
			assert.Equal(t, c.cut, cut)
		})
	}
}

func TestMet(t *testing.T) {
	c := New([]string{"bcde", "c", "bc"})
	_, cut := c.Write("ab")
	assert.False(t, cut)
	assert.Empty(t, c.Met())
	_, cut = c.Write("cde")
	assert.True(t, cut)
	assert.Equal(t, "bc", c.Met())
	assert.Empty(t, New(nil).Met())
}

// cutByIndex is the text before the sequence that is complete first, by strings.Index on
// the whole text.
func cutByIndex(text string, sequences []string) (before string, cut bool) {
	for end := range len(text) + 1 {
		at := -1
		for _, s := range sequences {
			if i := strings.Index(text[:end], s); i >= 0 && (at < 0 || i < at) {
				at = i
			}
		}
		if at >= 0 {
			return text[:at], true
		}
	}
	return text, false
}

// A text in any pieces is cut where strings.Index finds the sequence in the whole text,
// and what is held back is the beginning of a sequence.
func FuzzCutter(f *testing.F) {
	f.Add("I act.\nObservation: 4", "\nObservation:", "", []byte{1, 3, 2})
	f.Add("aaaaab", "aaab", "ab", []byte{1})
	f.Add("abcde", "bcde", "c", []byte{2, 1})
	f.Add("éèéè!", "è!", "éé", []byte{1, 1, 1})
	f.Fuzz(func(t *testing.T, text, one, other string, lengths []byte) {
		var sequences []string
		for _, s := range []string{one, other} {
			if s != "" && utf8.ValidString(s) {
				sequences = append(sequences, s)
			}
		}
		if !utf8.ValidString(text) || len(text) > 1<<10 {
			return // a text is valid UTF-8, and a longer one shows nothing more
		}
		pieces := split([]rune(text), lengths)
		sent, cut := written(t, sequences, pieces)
		before, found := cutByIndex(text, sequences)
		require.Equal(t, before, strings.Join(sent, ""), "pieces %q, sequences %q", pieces, sequences)
		require.Equal(t, found, cut)
		assertHeldBack(t, sequences, pieces, sent)
	})
}

// split splits a text into pieces of so many characters each, by turns.
func split(text []rune, lengths []byte) (pieces []string) {
	for i := 0; len(text) > 0; i++ {
		n := len(text)
		if len(lengths) > 0 {
			n = min(n, int(lengths[i%len(lengths)])%8+1)
		}
		pieces, text = append(pieces, string(text[:n])), text[n:]
	}
	return pieces
}

// assertHeldBack checks after each piece that the cutter holds back no more than the
// beginning of a sequence, and splits no character.
func assertHeldBack(t *testing.T, sequences, pieces, sent []string) {
	t.Helper()
	in, out := "", ""
	for i := range sent[:len(sent)-1] { // the last one is the rest, or before the cut
		in, out = in+pieces[i], out+sent[i]
		require.True(t, utf8.ValidString(sent[i]), "%q", sent[i])
		held := strings.TrimPrefix(in, out)
		begins := held == ""
		for _, s := range sequences {
			begins = begins || len(held) < len(s) && strings.HasPrefix(s, held)
		}
		require.True(t, begins, "%q is held back, which begins none of %q", held, sequences)
	}
}

// Each text of few letters in all its splits is cut as the whole text.
func TestEverySplit(t *testing.T) {
	for _, sequences := range [][]string{{"aab"}, {"ab", "ba"}, {"b", "aba"}, {"abab", "bb", "aaa", "ba"}} {
		for letters := range 1 << 7 {
			text := make([]byte, 7)
			for i := range text {
				text[i] = "ab"[letters>>i&1]
			}
			for cuts := range 1 << 6 {
				sent, cut := written(t, sequences, splitAt(string(text), cuts))
				before, found := cutByIndex(string(text), sequences)
				require.Equal(t, before, strings.Join(sent, ""), "%q at %b by %q", text, cuts, sequences)
				require.Equal(t, found, cut)
			}
		}
	}
}

// splitAt splits a text after each byte whose bit is set.
func splitAt(text string, cuts int) (pieces []string) {
	begin := 0
	for i := range len(text) - 1 {
		if cuts>>i&1 == 1 {
			pieces, begin = append(pieces, text[begin:i+1]), i+1
		}
	}
	return append(pieces, text[begin:])
}
