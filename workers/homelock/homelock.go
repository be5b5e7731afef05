// Package homelock keeps a worker's home, and the data of a dependency, to one process at a time: flock(2) on a file.
// The unit holds it from before its program starts until the program, which inherits it, has ended. Every command of
// ours that writes to a home takes its lock first.
package homelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FileName is the name of the file in the home.
const FileName = ".lock"

const (
	// Patience bounds Take: every holder but a running codex needs the home for less.
	Patience = 5 * time.Second
	// interval is the time between two attempts: flock(2) has no bound of its own.
	interval = 20 * time.Millisecond
	// longest bounds the name of a holder.
	longest = 160
)

// HeldError is the error of Take and TakeFile while another process has the lock.
type HeldError struct {
	Home   string // empty: the lock is no home's
	File   string // the lock
	Holder string // as that process gave it to Take; empty: unknown
}

func (e *HeldError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	if e.Home == "" {
		return fmt.Sprintf("the lock %s is held by %s", e.File, holder)
	}
	return fmt.Sprintf("the home %s is in use by %s, and has one writer at a time", e.Home, holder)
}

// Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// Take locks a home for holder, a unit or a command. It waits for at most Patience, or until ctx ends. The error is a
// *HeldError if the lock is not free by then, and wraps fs.ErrNotExist if there is no such home. The home may belong
// to another user that is not trusted.
func Take(ctx context.Context, home, holder string) (*Lock, error) {
	file, err := open(home)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the home %s: %w", home, err)
	}
	if err := await(ctx, file); err != nil {
		held := &HeldError{Home: home, File: file.Name(), Holder: holderOf(file)}
		if err := errors.Join(ignoreBusy(err), file.Close()); err != nil {
			return nil, fmt.Errorf("cannot lock the home %s: %w", home, err)
		}
		return nil, held
	}
	if err := name(file, holder); err != nil {
		return nil, fmt.Errorf("cannot lock the home %s: %w", home, errors.Join(err, file.Close()))
	}
	return &Lock{file}, nil
}

// open opens the file of the lock, and makes it for the owner of the home. os.Root lets no link in the home lead out
// of it.
func open(home string) (*os.File, error) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, err := root.OpenFile(FileName, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", filepath.Join(home, FileName))
	}
	if err == nil {
		err = give(root, file, info)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// give makes the file the property of the owner of the home.
func give(root *os.Root, file *os.File, info fs.FileInfo) error {
	home, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner, now := home.Sys().(*syscall.Stat_t), info.Sys().(*syscall.Stat_t)
	if now.Uid == owner.Uid {
		return nil
	}
	return file.Chown(int(owner.Uid), int(owner.Gid))
}

func await(ctx context.Context, file *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-again.C:
		}
	}
}

func ignoreBusy(err error) error {
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	return err
}

// name writes the holder into the file, for the errors of others.
func name(file *os.File, holder string) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(holder+"\n"), 0)
	return err
}

// holderOf returns the printable part of the name in the file.
func holderOf(file *os.File) string {
	text := make([]byte, longest)
	n, _ := file.ReadAt(text, 0) // an error: there is no name
	line, _, _ := strings.Cut(string(text[:n]), "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, line)
}

// File is the locked file. A process that inherits it holds the lock, too, until it ends.
func (l *Lock) File() *os.File { return l.file }

// Release gives the lock up. Processes that have inherited it keep it.
func (l *Lock) Release() error { return l.file.Close() }
