package dependency

import (
	"fmt"
	"unicode"
)

// misfit is the fault of a value.
type misfit struct {
	key, text string
}

func (m *misfit) Error() string { return m.key + ": " + m.text }

func wrong(key, format string, args ...any) error { return &misfit{key, fmt.Sprintf(format, args...)} }

// Bounds of lists and texts.
const (
	maxWords = 256
	maxItems = 64
	maxText  = 256 // of Description=
)

// printable is the error of a text that a line of a unit cannot hold.
func printable(text string) error {
	for _, r := range text {
		if unicode.IsControl(r) && r != '\t' || r == unicode.ReplacementChar {
			return fmt.Errorf("%q has the control character %U: a unit cannot pass it on; put the text into a script",
				text, r)
		}
		if noncharacter(r) {
			return fmt.Errorf("%q has the noncharacter %U: a unit cannot pass it on; put the text into a script", text, r)
		}
	}
	return nil
}

// noncharacter reports whether systemd takes the rune for invalid UTF-8, and leaves out the whole line (unichar_is_valid
// in src/basic/utf8.c).
func noncharacter(r rune) bool { return r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF }
