package sessions

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"codex-proxy/internal/cli"
	"codex-proxy/runner/api/wire"
)

// patchBound is how large a patch may be, in bytes: it is part of a JSON body.
const patchBound = wire.MaxBody / 2

// ReadPatch reads a patch from a file, or from stdin if its name is "-". It waits for the end of the input.
func ReadPatch(name string, stdin io.Reader) (string, error) {
	text, err := readPatch(name, stdin)
	if err != nil {
		return "", cli.Exit(RunnerFailed, fmt.Errorf("cannot read the patch: %w", err))
	}
	return text, nil
}

func readPatch(name string, stdin io.Reader) (string, error) {
	from, err := open(name, stdin)
	if err != nil {
		return "", err
	}
	defer from.Close()
	var text strings.Builder
	n, err := io.Copy(&text, io.LimitReader(from, patchBound+1))
	switch {
	case err == nil && n > patchBound:
		err = fmt.Errorf("it has more than %d bytes: commit it, and run the commit with --ref", patchBound)
	case err == nil && !utf8.ValidString(text.String()): // JSON has no other bytes
		err = errors.New("it has bytes that are no UTF-8: change the files, and take them along with --dirty")
	}
	return text.String(), err
}

// open opens an input; it is nil without a name.
func open(name string, stdin io.Reader) (io.ReadCloser, error) {
	switch name {
	case "":
		return nil, nil
	case "-":
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}
