// Package inputs takes the standard inputs of commands, and bounds how many bytes of them each user has at the same
// time.
package inputs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/files"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/queue"
)

// Most bounds the standard input of a command, in bytes.
const Most = 1 << 30

// Inputs has the standard inputs of commands that have not ended. Its methods are safe for concurrent use.
type Inputs struct {
	files files.Files
	bound int64 // of each user, in bytes; 0 is no bound

	// handing is held while a command gets its standard input or loses it, and under it mu and the store's lock.
	handing sync.Mutex

	mu    sync.Mutex // guards the rest; nothing else is locked under it
	users map[uint32]int64
	kept  map[queue.Key]int64
}

// New returns an Inputs without any.
func New(f files.Files, bound int64) *Inputs {
	return &Inputs{files: f, bound: bound, users: map[uint32]int64{}, kept: map[queue.Key]int64{}}
}

// Put receives the standard input of a command. Of requests at the same time, the first one has it: awaited returns an
// error to the others, and given records that the command has its input.
func (i *Inputs) Put(owner uint32, k queue.Key, from io.Reader, awaited, given func() error) error {
	path, upload, err := i.receive(owner, k, from)
	if err != nil {
		return fmt.Errorf("cannot keep the standard input: %w", err)
	}
	upload.assign(k)
	if err := i.hand(k, path, awaited, given); err != nil {
		os.Remove(path)
		upload.drop()
		return err
	}
	return nil
}

// receive writes a possible standard input of a command, and returns its path, which no other request has.
func (i *Inputs) receive(owner uint32, k queue.Key, from io.Reader) (path string, u *upload, err error) {
	dir := i.files.Command(k.Session, k.Number)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	file, err := os.CreateTemp(dir, paths.Stdin+".part-")
	if err != nil {
		return "", nil, err
	}
	u = &upload{inputs: i, to: file, user: owner}
	size, err := io.Copy(u, io.LimitReader(from, Most+1))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil && size > Most {
		err = wire.Refuse(wire.TooLarge, fmt.Sprintf("send at most %d", Most),
			"the standard input has more bytes than it may")
	}
	if err != nil {
		os.Remove(file.Name())
		u.drop()
	}
	return file.Name(), u, err
}

// hand gives a command the file at path.
func (i *Inputs) hand(k queue.Key, path string, awaited, given func() error) error {
	i.handing.Lock()
	defer i.handing.Unlock()
	if err := awaited(); err != nil {
		return err
	}
	if err := os.Rename(path, i.files.Path(k.Session, k.Number, paths.Stdin)); err != nil {
		return fmt.Errorf("cannot keep the standard input: %w", err)
	}
	return given()
}

// Restore counts the standard input that a command has since before the start of the daemon.
func (i *Inputs) Restore(owner uint32, k queue.Key) {
	info, err := os.Stat(i.files.Path(k.Session, k.Number, paths.Stdin))
	if err != nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.add(owner, info.Size())
	i.kept[k] = info.Size()
}

// Remove removes the standard input of a command that has ended, and the parts that interrupted uploads have left. An
// upload that ends meanwhile has stored its file before, or finds the command ended.
func (i *Inputs) Remove(owner uint32, k queue.Key) {
	i.handing.Lock()
	defer i.handing.Unlock()
	for _, pattern := range []string{paths.Stdin, paths.Stdin + ".part-*"} {
		parts, _ := filepath.Glob(i.files.Path(k.Session, k.Number, pattern))
		for _, part := range parts {
			os.Remove(part)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.add(owner, -i.kept[k])
	delete(i.kept, k)
}

// take counts further bytes of a user, or returns false if they are too many.
func (i *Inputs) take(user uint32, bytes int64) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.bound != 0 && !queue.Exempt(user) && i.users[user]+bytes > i.bound {
		return false
	}
	i.add(user, bytes)
	return true
}

func (i *Inputs) add(user uint32, bytes int64) {
	if i.users[user] += bytes; i.users[user] == 0 {
		delete(i.users, user)
	}
}
