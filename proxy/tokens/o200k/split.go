package o200k

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// class is the class of a character in the expression by which o200k_base splits a text into pieces:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	\p{N}{1,3}|
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*|
//	\s*[\r\n]+|
//	\s+(?!\S)|
//	\s+
//
// Go's regexp has no (?!), and other engines take quadratic time for some texts.
type class uint8

const (
	upper   class = 1 << iota // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower                     // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	mark                      // \p{M}
	number                    // \p{N}
	space                     // \s
	newline                   // [\r\n]
)

const (
	letter = upper | lower
	both   = letter
)

var ascii = func() (classes [utf8.RuneSelf]class) {
	for c := range classes {
		classes[c] = classify(rune(c))
	}
	return classes
}()

func classify(c rune) class {
	switch {
	case c == '\r', c == '\n':
		return space | newline
	case unicode.IsSpace(c):
		return space
	case unicode.Is(unicode.Ll, c):
		return lower
	case unicode.In(c, unicode.Lu, unicode.Lt):
		return upper
	case unicode.In(c, unicode.Lm, unicode.Lo):
		return both
	case unicode.Is(unicode.M, c):
		return both | mark
	case unicode.Is(unicode.N, c):
		return number
	}
	return 0
}

// at is the class of the first character of a text, and its size; 0 at the end.
func at(text string) (class, int) {
	if text == "" {
		return 0, 0
	}
	if c := text[0]; c < utf8.RuneSelf {
		return ascii[c], 1
	}
	c, n := utf8.DecodeRuneInString(text)
	return classify(c), n
}

// run is the size of the characters of some classes at the beginning of a text.
func run(text string, of class) (size int) {
	for size < len(text) {
		c, n := at(text[size:])
		if c&of == 0 {
			break
		}
		size += n
	}
	return size
}

// first is the size of the first piece of a text that is not empty.
func first(text string) int {
	c, n := at(text)
	if c&(number|newline) == 0 {
		if size := word(text, c, n); size > 0 {
			return size
		}
	}
	switch {
	case c&number != 0:
		return digits(text)
	case c&space == 0:
		return signs(text)
	case text[0] == ' ':
		if size := signs(text[1:]); size > 0 {
			return 1 + size
		}
	}
	return blank(text)
}

// word is the size of a word at the beginning of a text, with a first character of class c and n bytes; 0: no word. One
// character that is no letter may stand before the word.
func word(text string, c class, n int) int {
	if c&letter != 0 && c&mark == 0 {
		return letters(text, true)
	}
	size := letters(text[n:], c&mark == 0)
	if size > 0 {
		return n + size
	}
	if c&mark == 0 {
		return 0
	}
	return letters(text, true)
}

// letters is the size of capital letters, small letters and an abbreviated verb. Without small letters, which most
// scripts do not distinguish from capital ones, capital letters are a word only if alone is set.
func letters(text string, alone bool) int {
	capitals, ambiguous := capitals(text)
	size := capitals + run(text[capitals:], lower)
	switch {
	case size > capitals:
	case ambiguous > 0:
		size = ambiguous
	case !alone:
		return 0
	}
	if size > 0 {
		size += contraction(text[size:])
	}
	return size
}

// capitals is the size of letters that may be capital ones, and the size up to the last of them that may be a small
// one.
func capitals(text string) (size, ambiguous int) {
	for size < len(text) {
		c, n := at(text[size:])
		if c&upper == 0 {
			break
		}
		size += n
		if c&lower != 0 {
			ambiguous = size
		}
	}
	return size, ambiguous
}

// contraction is the size of an abbreviated verb after a word.
func contraction(text string) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	switch text[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if strings.HasPrefix(text[1:], "ſ") { // the other small letter of S
		return 1 + len("ſ")
	}
	if len(text) > 2 {
		switch [2]byte{text[1] | 0x20, text[2] | 0x20} {
		case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
			return 3
		}
	}
	return 0
}

// digits is the size of up to three digits.
func digits(text string) (size int) {
	for range 3 {
		c, n := at(text[size:])
		if c&number == 0 {
			break
		}
		size += n
	}
	return size
}

// signs is the size of signs, and of line ends and slashes after them; 0: there are no signs.
func signs(text string) (size int) {
	for size < len(text) {
		c, n := at(text[size:])
		if c&(space|number) != 0 || c&letter != 0 && c&mark == 0 {
			break
		}
		size += n
	}
	if size == 0 {
		return 0
	}
	for size < len(text) && strings.IndexByte("\r\n/", text[size]) >= 0 {
		size++
	}
	return size
}

// blank is the size of white space: up to its last line end, or up to the character before the next word.
func blank(text string) int {
	size, lines, before := 0, 0, 0
	for size < len(text) {
		c, n := at(text[size:])
		if c&space == 0 {
			break
		}
		before, size = size, size+n
		if c&newline != 0 {
			lines = size
		}
	}
	switch {
	case lines > 0:
		return lines
	case size == len(text), before == 0:
		return size
	}
	return before
}
