// Package strict decodes TOML files. All keys must be known. Each error names the file, the line and the key, and
// suggests the known key that an unknown one resembles.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"codex-proxy/internal/nearest"
)

// Error is one fault of a file.
type Error struct {
	File  string
	Line  int      // 0 when unknown
	Text  string   // the fault, without its place
	Known []string // for an unknown key that resembles no known key: all keys
}

func (e *Error) Error() string {
	text := e.Text
	if len(e.Known) > 0 {
		text += " (known keys: " + strings.Join(e.Known, ", ") + ")"
	}
	if e.Line == 0 {
		return e.File + ": " + text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, text)
}

// Decode parses the text of the file named file into v, a pointer to a struct
// with toml tags. A key that v lacks is an error. Every error is an *Error or
// joins several of them, in the order of the file.
func Decode(file string, text []byte, v any) error {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(v)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return unknownKeys(file, unknown, Keys(v))
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		return &Error{File: file, Line: line, Text: describe(wrong)}
	default:
		return &Error{File: file, Text: err.Error()}
	}
}

func describe(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	if key := strings.Join(e.Key(), "."); key != "" {
		return fmt.Sprintf("%s: %s", key, text)
	}
	return text
}

func unknownKeys(file string, unknown *toml.StrictMissingError, known []string) error {
	var errs []error
	for _, u := range unknown.Errors {
		line, _ := u.Position()
		key := strings.Join(u.Key(), ".")
		e := &Error{File: file, Line: line, Text: fmt.Sprintf("unknown key %q", key), Known: known}
		if near := nearest.To(key, known, 1); len(near) > 0 {
			e.Text, e.Known = fmt.Sprintf("%s (did you mean %q?)", e.Text, near[0]), nil
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Keys lists the toml keys of the struct that v is or points to, nested ones
// with dots. It leaves out the keys of a table that may have any.
func Keys(v any) []string { return keysOf(reflect.TypeOf(v), "") }

func keysOf(t reflect.Type, prefix string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var keys []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("toml"), ",")
		if t.Field(i).Anonymous && name == "" { // its keys are keys of t
			keys = append(keys, keysOf(t.Field(i).Type, prefix)...)
		}
		if name == "" || name == "-" {
			continue
		}
		keys = append(keys, prefix+name)
		keys = append(keys, keysOf(t.Field(i).Type, prefix+name+".")...)
	}
	return keys
}
