// Package wire holds the types of the API of codex-runner, for its server and its clients. openapi.yaml, which Document
// returns, is the contract: HTTP/1.1 over the unix socket paths.Socket, JSON bodies, and errors as an Error.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	_ "embed"
)

//go:embed openapi.yaml
var document []byte

// Document returns the OpenAPI 3.1 document of the API, as GET /v1/openapi.yaml serves it.
func Document() []byte { return bytes.Clone(document) }

// MaxBody bounds a JSON body of a request, in bytes. Standard input and bundles have bounds of their own.
const MaxBody = 8 << 20

// Decode reads one JSON value. Unknown fields are errors, so that a misspelt limit is not ignored.
func Decode(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is text behind the JSON value")
	}
	return nil
}

// Duration is a time.Duration, in JSON as text: "1h30m", "300ms".
type Duration time.Duration

// MarshalText is the text of time.Duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the format of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: write a number with a unit, as in 300ms, 90s or 1h30m", text)
	}
	*d = Duration(v)
	return nil
}
