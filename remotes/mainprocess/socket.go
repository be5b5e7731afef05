// Package mainprocess has the parts that the main processes of a remote and of a user's own codex share: the run and
// the socket of codex, the way by which the manager follows the clients, and the exit status.
package mainprocess

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is the socket of codex, which loses its name as soon as it is there: so no tool, and no command of an
// attached person, finds a way to codex that leads round the proxy. A process connects to it by a descriptor, with
// O_PATH (open(2)), that it has from the time before.
type Socket struct {
	name string
	file *os.File
}

// lookPause is the time between two looks for the socket, which codex makes some 50 ms after its start.
const lookPause = 5 * time.Millisecond

// NewSocket reserves a descriptor for the socket that codex makes at name. Until then it is for a directory, and a
// connect(2) to it is refused.
func NewSocket(name string) (*Socket, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot remove the socket of an earlier codex: %w", err)
	}
	file, err := os.OpenFile(filepath.Dir(name), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Socket{name, file}, nil
}

// Close closes the descriptor, on which Path counts.
func (s *Socket) Close() error { return s.file.Close() }

// Path is where this process, and no other one, connects to codex.
func (s *Socket) Path() string { return fmt.Sprintf("/proc/self/fd/%d", s.file.Fd()) }

// Await waits for codex's socket, opens it and takes its names away: the one that codex was given and, as that is a
// link since codex 0.141, the one that it leads to. Its error is not about the end of ctx.
func (s *Socket) Await(ctx context.Context) error {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		target, err := filepath.EvalSymlinks(s.name)
		if err == nil {
			err = s.take(target)
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoSocket) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

var errNoSocket = errors.New("it is not a socket")

func (s *Socket) take(target string) error {
	fd, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errNoSocket
	}
	if err := unix.Dup3(fd, int(s.file.Fd()), unix.O_CLOEXEC); err != nil {
		return err
	}
	return errors.Join(os.Remove(target), removed(s.name))
}

// removed removes a file that may be gone.
func removed(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
