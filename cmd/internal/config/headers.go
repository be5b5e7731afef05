package config

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
)

// headerLine is what RFC 9110 calls a field, without obsolete forms.
var headerLine = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~]*)$")

// ReadHeaders reads HTTP headers, one "Name: value" a line; empty lines and those
// that begin with # do not count. They are secrets, so that nobody else may read
// the file, and no error shows a value. Without a file there are none.
func ReadHeaders(file string) (http.Header, error) {
	header := http.Header{}
	if file == "" {
		return header, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the headers: %w", err)
	}
	// The group's right is how systemd lets a dynamic user read a credential.
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
