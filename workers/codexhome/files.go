package codexhome

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkOwner finds a file in a home that the worker cannot read, or that codex cannot write, because root or a
// backup has put it there: systemd gives a whole home to its worker, but only if the home itself belongs to another
// user.
func checkOwner(home string) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return fmt.Errorf("cannot read the home: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(home, entry.Name())
		need := uint32(unix.R_OK)
		if written(entry.Name()) {
			need |= unix.W_OK
		}
		switch {
		case entry.IsDir():
			need |= unix.X_OK
		case !entry.Type().IsRegular():
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, path, need, unix.AT_EACCESS) == nil || !foreign(entry) {
			continue
		}
		return &Problem{Text: fmt.Sprintf("%s belongs to another user, and the worker cannot use it", path),
			Hint: fmt.Sprintf("`chown root %s/`: systemd gives a home of root to the worker, with all that is in it, "+
				"at its next start", home)}
	}
	return nil
}

// written reports whether codex 0.169 writes to the file or directory of that name.
func written(name string) bool {
	switch name {
	case authName, "sessions", "archived_sessions", "thread-writer-locks", "log", "tmp":
		return true
	}
	return strings.Contains(name, ".sqlite")
}

// foreign reports whether an entry belongs to another user. One that is gone does not.
func foreign(entry fs.DirEntry) bool {
	info, err := entry.Info()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != os.Geteuid()
}

// writeFile replaces path in one step, readable for the owner alone, unless path already has this content.
func writeFile(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return os.Chmod(path, 0o600)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // made 0600
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// link makes path a symbolic link to dest, replacing one in one step.
func link(dest, path string) error {
	if old, err := os.Readlink(path); err == nil && old == dest {
		return nil
	}
	temp := path + ".new"
	if err := removeFiles(temp); err != nil {
		return err
	}
	if err := os.Symlink(dest, temp); err != nil {
		return fmt.Errorf("cannot link %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("cannot link %s: %w", path, err)
	}
	return nil
}

func removeFiles(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove %s: %w", path, err)
		}
	}
	return nil
}

// certificatesName is a file in the unit's RuntimeDirectory. codex trusts it in place
// of the system's certificate authorities.
const certificatesName = "certificates.pem"

// certificates writes that file if the provider determines the authorities that codex
// needs. codex reads the whole file for each turn; reading the system's takes half of
// a turn.
func (h *Home) certificates(w *Worker) error {
	path := filepath.Join(h.Runtime, certificatesName)
	switch {
	case w.Provider != nil && w.Provider.CAFile != "":
		doc, err := os.ReadFile(w.Provider.CAFile)
		if err != nil {
			return w.problem("provider.ca_file", fmt.Sprintf("cannot read provider.ca_file: %v", err),
				"it must be readable for the worker's user")
		}
		if !hasCertificate(doc) {
			return w.problem("provider.ca_file", fmt.Sprintf("provider.ca_file = %q holds no certificate",
				w.Provider.CAFile), "give a PEM file, with BEGIN CERTIFICATE")
		}
		return writeFile(path, doc)
	case w.Mode == Plain && (w.broker != "" || w.Provider.withoutTLS()):
		return writeFile(path, []byte("# none: the worker's only endpoint is http\n"))
	}
	return removeFiles(path)
}

// withoutTLS reports whether the endpoint is on this machine or at an address. A
// name could redirect to https.
func (p *Provider) withoutTLS() bool {
	if p == nil {
		return false
	}
	u, err := url.Parse(p.BaseURL)
	return err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()) != nil)
}

func hasCertificate(doc []byte) bool {
	for block, rest := pem.Decode(doc); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			return true
		}
	}
	return false
}
