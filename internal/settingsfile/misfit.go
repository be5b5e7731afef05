package settingsfile

import (
	"errors"
	"fmt"

	"codex-proxy/internal/strict"
)

// misfit is the fault of a value.
type misfit struct{ key, text string }

func (m *misfit) Error() string { return m.key + ": " + m.text }

// Wrong is the fault of the value of a key.
func Wrong(key, format string, args ...any) error { return &misfit{key, fmt.Sprintf(format, args...)} }

// Located gives a fault of Wrong its place in the text of a file. Other errors stay as they are.
func Located(err error, file string, lines strict.Lines) error {
	var m *misfit
	if !errors.As(err, &m) {
		return err
	}
	line, _ := lines.Find(m.key)
	return &strict.Error{File: file, Line: line, Text: m.Error()}
}
