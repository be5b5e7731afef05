package eventlog

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Process is the lock of a living process.
type Process struct {
	name string
	file *os.File
}

// claim makes the lock of this process, under a name that no other process ever has.
func claim(dir string) (*Process, error) {
	var random [8]byte
	rand.Read(random[:]) // never fails
	name := "process-" + hex.EncodeToString(random[:]) + ".lock"
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot make the lock of this process: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", name, err)
	}
	return &Process{name, file}, nil
}

// release ends the lock, and removes its file, without which a process has ended, too.
func (p *Process) release() {
	_ = os.Remove(p.file.Name())
	p.file.Close()
}

// Alive reports whether the process with that name has not ended.
func (l *Logs) Alive(process string) bool {
	if process == l.Own() {
		return true
	}
	file, err := os.Open(l.path(process))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// Forget removes the lock of a process that has ended.
func (l *Logs) Forget(process string) {
	if !l.Alive(process) {
		_ = os.Remove(l.path(process))
	}
}

// settled is the age from which the file of a lock is locked, unless its process has ended.
const settled = time.Minute

// forgetAll removes the locks of processes that have ended without any response in flight.
func (l *Logs) forgetAll() {
	locks, _ := filepath.Glob(filepath.Join(l.dir, "process-*.lock")) // the pattern is valid
	for _, lock := range locks {
		if info, err := os.Stat(lock); err == nil && time.Since(info.ModTime()) > settled {
			l.Forget(filepath.Base(lock))
		}
	}
}

// Signal wakes another process, which sees it in Signals.
func (l *Logs) Signal(process string) {
	now := time.Now()
	_ = os.Chtimes(l.path(process), now, now) // the process has ended, or looks by itself
}

// Signals returns a channel that holds an element at first and after each signal of another process; nil if the kernel
// reports none, so that this process must look by itself.
func (l *Logs) Signals() (signals <-chan struct{}, stop func()) {
	watch, stop := l.watch(l.path(l.Own()), unix.IN_ATTRIB)
	if watch == nil {
		return nil, stop
	}
	return watch.Changed(), stop
}
