package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// fileName is codex's file with all types.
	fileName = "codex_app_server_protocol.schemas.json"
	// maxFile bounds it: codex 0.171 writes 1 MB.
	maxFile = 8 << 20
	// cacheName is the file of the last Requests, and newDir where codex writes, in the directory of Load.
	cacheName, newDir = "reads.json", "schema.new"
	maxCache          = 1 << 20
)

// cache has the requests in the schema of one program.
type cache struct {
	Of       []string // the identities of codex, and of this program, which has the rules
	Requests Requests
}

// Load returns the requests of the codex at program that only read. generate has codex write its schema into a
// directory, unless the last call was for the same program: dir keeps the result. codex must not be able to write to
// dir.
func Load(
	ctx context.Context, program, self, dir string, generate func(ctx context.Context, out string) error,
) (Requests, error) {
	var of []string
	for _, path := range []string{program, self} {
		id, err := identity(path)
		if err != nil {
			return nil, err
		}
		of = append(of, id)
	}
	known := filepath.Join(dir, cacheName)
	var c cache
	if b, err := readUpTo(known, maxCache); err == nil && json.Unmarshal(b, &c) == nil && len(c.Of) == len(of) &&
		c.Of[0] == of[0] && c.Of[1] == of[1] {
		return c.Requests, nil
	}
	found, err := generated(ctx, filepath.Join(dir, newDir), generate)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(cache{of, found})
	if err == nil {
		err = os.WriteFile(known+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(known+".new", known)
	}
	if err != nil {
		return found, fmt.Errorf("cannot keep what codex's schema has: %w", err)
	}
	return found, nil
}

// identity changes whenever the content of a file does: systemd gives no tool the right to set the time of change, and
// a replaced file has another inode. Reading the 300 MB of codex takes longer than its schema.
func identity(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("this system has no inodes")
	}
	return fmt.Sprintf("%s %d:%d %d %d.%d", path, st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec), nil
}

// generated leaves nothing in dir, and removes the remains of a start that was killed.
func generated(
	ctx context.Context, dir string, generate func(ctx context.Context, out string) error,
) (Requests, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes it
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := generate(ctx, dir); err != nil {
		return nil, fmt.Errorf("codex does not write its schema: %w", err)
	}
	b, err := readUpTo(filepath.Join(dir, fileName), maxFile)
	if err != nil {
		return nil, err
	}
	found, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("cannot read codex's schema: %w", err)
	}
	return found, nil
}

func readUpTo(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d MiB", path, limit>>20)
	}
	return b, err
}
