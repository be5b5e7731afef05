package config

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"codex-proxy/internal/lazyregexp"
)

// headerLine is a field line of RFC 9110, without obsolete forms.
var headerLine = lazyregexp.New("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~]*)$")

// ReadHeaders reads HTTP headers, one "Name: value" a line, and skips empty lines
// and those that begin with #. The values are secrets: other users must not be able
// to read the file, and no error shows a value. Without a file there are no headers.
func ReadHeaders(file string) (http.Header, error) {
	header := http.Header{}
	if file == "" {
		return header, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the headers: %w", err)
	}
	// The group may read: systemd grants a dynamic user its credentials that way.
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("%s has mode %04o; others must not read it: chmod 0600 %s", file, mode, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the headers: %w", err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		field := headerLine.FindStringSubmatch(line)
		if field == nil {
			return nil, fmt.Errorf("%s:%d: must be a header, as in: Authorization: Bearer TOKEN", file, n)
		}
		header.Add(field[1], field[2])
	}
	return header, nil
}
