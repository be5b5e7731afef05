package codexhome

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// stamp records the inputs and the files of the last good run. While both are unchanged codex does not run again.
type stamp struct {
	Inputs string            `json:"inputs"`
	Files  map[string]string `json:"files"` // hash of each file written
}

// systemSettings has codex's settings of the whole machine, which a strict reading also covers.
const systemSettings = "/etc/codex"

// inputs is a hash of all inputs of a run. Large or secret files count by size and time of change.
func (h *Home) inputs(worker []byte, binary, workspace string) string {
	sum := sha256.New()
	for _, text := range []string{h.File, h.Dir, h.Runtime, h.Credentials, h.Broker, string(worker), binary,
		resolved(h.Dir), resolved(workspace), strconv.Itoa(os.Getuid())} {
		fmt.Fprintf(sum, "%d %s\n", len(text), text)
	}
	identify(sum, h.Self)
	identify(sum, binary)
	identify(sum, h.authFile())
	system, _ := filepath.Glob(filepath.Join(systemSettings, "*"))
	for _, path := range system {
		identify(sum, path)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func identify(w io.Writer, path string) {
	if info, err := os.Stat(path); err == nil {
		fmt.Fprintf(w, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
	}
}

// fresh reports whether the last good run had the same inputs and its files are unchanged. An unreadable stamp is
// no stamp.
func (h *Home) fresh(inputs string) bool {
	var s stamp
	raw, err := os.ReadFile(h.stampFile())
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Inputs != inputs || len(s.Files) == 0 {
		return false
	}
	for path, hash := range s.Files {
		if fileHash(path) != hash {
			return false
		}
	}
	return true
}

func (h *Home) stamp(inputs string, files ...string) error {
	s := stamp{Inputs: inputs, Files: map[string]string{}}
	for _, path := range files {
		s.Files[path] = fileHash(path)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeFile(h.stampFile(), raw)
}

// fileHash covers the mode too: a config that others can read is a changed one.
func fileHash(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(data, "\n%o", info.Mode()))
	return hex.EncodeToString(sum[:])
}
