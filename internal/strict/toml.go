// Package strict decodes TOML files in which nothing may be misspelt: every
// complaint names the file, the line and the key, and the key that was
// probably meant.
package strict

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Decode parses the text of the file named file into v, a pointer to a struct
// with toml tags. Keys that v does not have are errors.
func Decode(file string, text []byte, v any) error {
	err := toml.NewDecoder(strings.NewReader(string(text))).DisallowUnknownFields().Decode(v)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return unknownKeys(file, unknown, keysOf(reflect.TypeOf(v), ""))
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		return fmt.Errorf("%s:%d: %s", file, line, describe(wrong))
	default:
		return fmt.Errorf("%s: %w", file, err)
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
	for _, e := range unknown.Errors {
		line, _ := e.Position()
		key := strings.Join(e.Key(), ".")
		hint := "known keys: " + strings.Join(known, ", ")
		if near := Nearest(key, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		errs = append(errs, fmt.Errorf("%s:%d: unknown key %q (%s)", file, line, key, hint))
	}
	return errors.Join(errs...)
}

// keysOf lists the toml keys of a struct, nested ones with dots; free names of
// tables are left out.
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
		if name == "" || name == "-" {
			continue
		}
		keys = append(keys, prefix+name)
		keys = append(keys, keysOf(t.Field(i).Type, prefix+name+".")...)
	}
	return keys
}
