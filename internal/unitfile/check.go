package unitfile

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
)

// Printable is the error of a text that a line of a unit cannot hold.
func Printable(text string) error {
	for _, r := range text {
		if unicode.IsControl(r) && r != '\t' || r == unicode.ReplacementChar {
			return fmt.Errorf("%q has the control character %U: a unit cannot pass it on; put the text into a script",
				text, r)
		}
		if noncharacter(r) {
			return fmt.Errorf("%q has the noncharacter %U: a unit cannot pass it on; put the text into a script", text,
				r)
		}
	}
	return nil
}

// noncharacter reports whether systemd takes the rune for invalid UTF-8, and leaves out the whole line
// (unichar_is_valid in src/basic/utf8.c).
func noncharacter(r rune) bool { return r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF }

// longestPath bounds a path, in bytes.
const longestPath = 1024

// CheckPath is the error of a path that systemd and a human do not read alike.
func CheckPath(path string) error {
	switch err := Printable(path); {
	case err != nil:
		return err
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q is not an absolute path", path)
	case filepath.Clean(path) != path:
		return fmt.Errorf("%q is not the shortest form of the path: write %q", path, filepath.Clean(path))
	case strings.ContainsAny(path, "\"\\\t") || strings.HasSuffix(path, " "):
		return fmt.Errorf("%q has a quote, backslash or tab, or ends with a space, which a unit cannot pass on: "+
			"rename it or link to it", path)
	case len(path) > longestPath:
		return fmt.Errorf("the path is longer than %d bytes", longestPath)
	}
	return nil
}

// Within reports whether path is dir or lies below it.
func Within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
