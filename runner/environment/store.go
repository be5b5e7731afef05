package environment

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// sums is the file of a store with the digests of the others, as sha256sum(1) writes it.
const sums = "SHA256SUMS"

// Store is a directory with packages for builds without the network: wheels, a channel of conda, or tarballs of npm. A
// build compares each file with SHA256SUMS before it uses any, as not every installer does. So the sums stand for the
// files in a key, and a session reads no more than them.
type Store struct {
	Dir  string `json:"dir,omitempty"` // "" for the network
	Sums []byte `json:"sums,omitempty"`
}

// OpenStore reads the sums of a store.
func OpenStore(dir string) (Store, error) {
	data, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil {
		return Store{}, fmt.Errorf("cannot use the store of packages: %w: run there: find -type f ! -name %s -printf '%%P\\0' | "+
			"xargs -0 sha256sum >%s", err, sums, sums)
	}
	return Store{dir, data}, nil
}

// Verify compares the files with the sums.
func (s Store) Verify() error {
	for lines := bufio.NewScanner(bytes.NewReader(s.Sums)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), " ")
		name = strings.TrimLeft(name, " *")
		if !ok || !filepath.IsLocal(name) {
			return fmt.Errorf("%s/%s has the line %q, which is no sum of a file there: write it anew with sha256sum",
				s.Dir, sums, lines.Text())
		}
		got, err := digest(filepath.Join(s.Dir, name))
		if err != nil {
			return fmt.Errorf("cannot use the store of packages: %w", err)
		}
		if got != sum {
			return fmt.Errorf("%s/%s is not the file that %s names: fetch it again, or write its sum anew", s.Dir, name,
				sums)
		}
	}
	return nil
}

func digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	return hex.EncodeToString(h.Sum(nil)), err
}
