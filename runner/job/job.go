// Package job does the work of the units that sessions share: codex-repository@.service fetches a repository, and
// codex-environment@.service builds an environment. Each reads its order, which the daemon has written, from an
// inherited file, and writes one result: a line of JSON. A result that does not end in a newline means that the process
// was killed.
package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"codex-proxy/runner/paths"
)

// Version is the version of all orders and results.
const Version = 1

// maxOrder bounds an order, in bytes: the manifests of an environment are in it.
const maxOrder = 128 << 20

// Code is the kind of a Failure.
type Code string

// The codes.
const (
	UnknownRef Code = "unknown_ref" // the repository does not have it
	Failed     Code = "failed"      // any other reason
)

// Failure is the reason why a job was not done, with the remedy.
type Failure struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Files are inherited files by the names of package paths.
type Files map[string]*os.File

// check returns an error if files are missing.
func (f Files) check() error {
	if f[paths.OrderFile] == nil || f[paths.ResultFile] == nil || f[paths.OutputFile] == nil {
		return errors.New("cannot find the inherited files: start the unit by systemctl, not this command")
	}
	return nil
}

// order reads the order. An unknown field is an error.
func (f Files) order(v any) error {
	text, err := io.ReadAll(io.NewSectionReader(f[paths.OrderFile], 0, maxOrder+1))
	if err == nil && len(text) > maxOrder {
		err = fmt.Errorf("it is longer than %d bytes", maxOrder)
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(v)
	}
	if err != nil {
		return fmt.Errorf("cannot read the order: %w", err)
	}
	return nil
}

// report writes the result.
func (f Files) report(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = f[paths.ResultFile].Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the result: %w", err)
	}
	return nil
}

func checkVersion(version int) error {
	if version != Version {
		return fmt.Errorf("the order has version %d, this program knows %d: restart codex-runner.service after an upgrade",
			version, Version)
	}
	return nil
}

// failure is nil without an error.
func failure(err error, code Code) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{Code: code, Text: err.Error()}
}

// Read reads the Fetched or Built of a job that has ended.
func Read[T Fetched | Built](r io.Reader) (*T, error) {
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	v := new(T)
	if err == nil && (len(text) == 0 || text[len(text)-1] != '\n') {
		err = errors.New("the file is not whole: the job was killed")
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the result: %w", err)
	}
	return v, nil
}
