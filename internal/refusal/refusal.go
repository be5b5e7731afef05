// Package refusal carries the reason why a start of a unit is refused from a command of its ExecStartPre=, which runs
// as root, to its main process. systemd looks only at the status of the main process to decide about a restart
// (RestartPreventExitStatus=, systemd.service(5)).
package refusal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// longest bounds a reason, in bytes.
const longest = 2048

// invocation is the variable of systemd.exec(5) that all processes of one start of a unit have in common.
const invocation = "INVOCATION_ID"

// Write leaves the reason at path for the other processes of this start, which have another user. It makes the
// directory, in which root alone writes. The umask does not count.
func Write(path, reason string) error {
	if err := Clear(path); err != nil {
		return err
	}
	line := strings.Join(strings.Fields(reason), " ")
	line = strings.ToValidUTF8(line[:min(len(line), longest)], "") // the cut may be within a character
	text := os.Getenv(invocation) + "\n" + line + "\n"
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot write the reason of a refusal: %w", err)
	}
	err := os.WriteFile(path, []byte(text), 0o600)
	if err == nil {
		err = errors.Join(os.Chmod(path, 0o644), os.Chmod(dir, 0o755)) //nolint:gosec // other users read it
	}
	if err != nil {
		return fmt.Errorf("cannot write the reason of a refusal: %w", err)
	}
	return nil
}

// Clear removes the reason of an earlier start.
func Clear(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the reason of an earlier refusal: %w", err)
	}
	return nil
}

// Read returns the reason that a process of this start has left at path; empty if it has left none. A reason of another
// start does not count.
func Read(path string) (reason string, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the reason of a refusal: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, 2*longest))
	if err != nil {
		return "", fmt.Errorf("cannot read the reason of a refusal: %w", err)
	}
	start, reason, _ := strings.Cut(string(text), "\n")
	if start != os.Getenv(invocation) {
		return "", nil
	}
	return strings.TrimSpace(reason), nil
}
