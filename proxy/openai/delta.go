package openai

import (
	"iter"
	"unicode/utf8"
)

// MaxDelta is the most bytes of text in one delta of a stream. Clients bound a line: bufio.Scanner of Go, as
// langchaingo uses it, to 64 KiB, and aiohttp of Python to 128 KiB. JSON may write a byte as six.
const MaxDelta = 4 << 10

// Pieces splits a text into deltas, between characters. An empty text is one piece.
func Pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > MaxDelta {
			cut := MaxDelta
			for cut > MaxDelta-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
				cut--
			}
			if !yield(text[:cut]) {
				return
			}
			text = text[cut:]
		}
		yield(text)
	}
}
