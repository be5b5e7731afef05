package main

import (
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const journalDir = "/run/systemd/journal"

// listenAsJournal reads log entries on the journal's socket, and drops them.
func listenAsJournal() (io.Closer, error) {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(journalDir, 0o755); err != nil { //nolint:gosec // as systemd makes it
		return nil, err
	}
	if err := unix.Mount("none", journalDir, "tmpfs", 0, ""); err != nil {
		return nil, err
	}
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: journalDir + "/socket", Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	go func() {
		for b := make([]byte, 64<<10); ; {
			if _, err := l.Read(b); err != nil {
				return
			}
		}
	}()
	return l, nil
}

// asService makes a program log to the journal: it compares JOURNAL_STREAM with
// its standard error (systemd.exec(5)).
func asService(stderr *os.File) (env string, err error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(stderr.Fd()), &s); err != nil {
		return "", err
	}
	return fmt.Sprintf("JOURNAL_STREAM=%d:%d", s.Dev, s.Ino), nil
}
