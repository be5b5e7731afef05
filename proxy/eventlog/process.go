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

// processPrefix begins the names of locks; no id of a response does.
const processPrefix = "process-"

// claim makes the lock of this process, under a name that no other process ever has.
func claim(dir string) (*Process, error) {
	for {
		var random [8]byte
		rand.Read(random[:]) // never fails
		name := processPrefix + hex.EncodeToString(random[:]) + ".lock"
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("cannot make the lock of this process: %w", err)
		}
		if err := lock(file); err != nil {
			file.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", name, err)
		}
		if there(file) {
			return &Process{name, file}, nil
		}
		file.Close() // another process has found the file before it was locked, and removed it
	}
}

// lock waits for processes that look at the lock.
func lock(file *os.File) error {
	for {
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// there reports whether the file was not removed.
func there(file *os.File) bool {
	now, err := os.Stat(file.Name())
	if err != nil {
		return false
	}
	own, err := file.Stat()
	return err == nil && os.SameFile(now, own)
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
	file, err := os.Open(l.path(process))
	if err != nil {
		return
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		_ = os.Remove(file.Name())
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
