package stored

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked means that a response is being made in the conversation.
var ErrLocked = errors.New("another response is being made in the conversation")

// locks hold the conversations in which responses are being made, for all processes that use the file: each
// conversation is a byte of a lock file, at a place that its id determines. The kernel releases the locks of a process
// that ends. Source: fcntl_locking(2), "Open file description locks".
type locks struct {
	mu   sync.Mutex
	path string
	file *os.File // nil: no conversation was locked yet
	held map[string]*lock
}

// lock is a lock of this process: of one response, or of shared changes.
type lock struct {
	holder string // empty: it is shared
	shared int
}

// LocksName is the lock file's name in the state directory.
const LocksName = "conversations.lock"

func newLocks(database string) *locks {
	return &locks{path: filepath.Join(filepath.Dir(database), LocksName), held: map[string]*lock{}}
}

const (
	// lockPatience is how long a lock is waited for: clients see that a response has ended, in any process, shortly
	// before it yields its conversation, and may send the next request at once.
	lockPatience = 250 * time.Millisecond
	// lockAgain is the time between two tries.
	lockAgain = 5 * time.Millisecond
)

// patiently tries to take a lock for lockPatience.
func patiently(take func() error) error {
	err := take()
	for end := time.Now().Add(lockPatience); errors.Is(err, ErrLocked) && time.Now().Before(end); err = take() {
		<-time.After(lockAgain)
	}
	return err
}

// Claim locks a conversation for a response until Yield, also in the store of another process. A further claim of the
// same response has no effect. The error is ErrLocked if another response has the conversation, or if it is being
// changed.
func (s *Conversations) Claim(conversation, response string) error {
	return patiently(func() error { return s.locks.claim(conversation, response) })
}

func (l *locks) claim(conversation, response string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.held[conversation]; there != nil {
		if there.holder == response {
			return nil
		}
		return ErrLocked
	}
	if err := l.set(conversation, unix.F_WRLCK); err != nil {
		return err
	}
	l.held[conversation] = &lock{holder: response}
	return nil
}

// Yield ends the claim of a response, if it has one.
func (s *Conversations) Yield(conversation, response string) {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	if l := s.locks.held[conversation]; l != nil && l.holder == response {
		s.locks.release(conversation)
	}
}

// Change runs a change of the items of a conversation. The error is ErrLocked if a response has the conversation.
// Changes do not lock each other out.
func (s *Conversations) Change(ctx context.Context, conversation string, change func(context.Context) error) error {
	if err := patiently(func() error { return s.locks.share(conversation) }); err != nil {
		return err
	}
	defer s.locks.unshare(conversation)
	return change(ctx)
}

func (l *locks) share(conversation string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.held[conversation]; there != nil {
		if there.holder != "" {
			return ErrLocked
		}
		there.shared++
		return nil
	}
	if err := l.set(conversation, unix.F_RDLCK); err != nil {
		return err
	}
	l.held[conversation] = &lock{shared: 1}
	return nil
}

func (l *locks) unshare(conversation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.held[conversation]; there.shared > 1 {
		there.shared--
		return
	}
	l.release(conversation)
}

// release is called under mu.
func (l *locks) release(conversation string) {
	delete(l.held, conversation)
	_ = l.set(conversation, unix.F_UNLCK) // it cannot fail: the file is open
}

// set is called under mu.
func (l *locks) set(conversation string, kind int16) (err error) {
	if l.file == nil {
		if l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			l.file = nil // as on a full disk
			return fmt.Errorf("%w: cannot lock a conversation: %w", ErrUnavailable, err)
		}
	}
	sum := sha256.Sum256([]byte(conversation))
	err = unix.FcntlFlock(l.file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{
		Type: kind, Whence: io.SeekStart, Start: int64(binary.BigEndian.Uint64(sum[:8]) >> 2), Len: 1,
	})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	if err != nil {
		return fmt.Errorf("cannot lock a conversation: %w", err)
	}
	return nil
}

// close releases all locks.
func (l *locks) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
