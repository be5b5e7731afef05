package handstable

import (
	"fmt"
	"io"
	"os"
)

// maxSetUp bounds the file of a set-up, in bytes.
const maxSetUp = 64 << 10

// ReadSetUp returns the text of the set-up; empty: it is the repository's own.
func (h *Hands) ReadSetUp() (string, error) {
	if h.SetUp == "" {
		return "", nil
	}
	file, err := os.Open(h.SetUp)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSetUp+1))
	if err == nil && len(text) > maxSetUp {
		err = fmt.Errorf("%s has more than %d bytes", h.SetUp, maxSetUp)
	}
	return string(text), err
}
