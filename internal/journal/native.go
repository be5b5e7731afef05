package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"codex-proxy/internal/direct"
)

// nativeSocket is the socket of the journal (systemd-journald.service(8)).
const nativeSocket = "/run/systemd/journal/socket"

// patience bounds the write of an entry while the journal is busy. After it has run
// out, entries wait only for a moment until the journal accepts one again: a logging
// goroutine delays others.
const (
	patience = time.Second
	moment   = time.Millisecond
)

// native sends entries over a connection of its own, with package direct, because every
// request writes one. The library's writes have no bound.
type native struct {
	path    string
	program string // that logs the entries

	mu     sync.Mutex
	conn   *net.UnixConn
	quick  net.Conn // conn, for most entries
	buf    []byte
	missed int // entries that the journal has not accepted since it stands still
}

// send drops an entry that the journal does not accept in time, and logs the number of
// dropped entries later: the journal would not accept a line of standard error either.
func (n *native) send(message string, p journal.Priority, vars []field) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	if n.missed > 0 {
		missing := fmt.Sprintf("the journal stood still, and entries of %s are missing: %d", n.program, n.missed)
		identifier := []field{{"SYSLOG_IDENTIFIER", n.program}}
		if err = n.write(moment, missing, journal.PriWarning, identifier); err == nil {
			n.missed = 0
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		err = n.write(patience, message, p, vars)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n.missed++
		return nil
	}
	return err
}

// write sends one entry. The caller holds the lock.
func (n *native) write(within time.Duration, message string, p journal.Priority, vars []field) error {
	if n.conn == nil {
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.path, Net: "unixgram"})
		if err != nil {
			return err
		}
		n.conn, n.quick = c, direct.Conn(c)
	}
	n.buf = appendVar(n.buf[:0], "PRIORITY", strconv.Itoa(int(p)))
	n.buf = appendVar(n.buf, "MESSAGE", message)
	for _, f := range vars {
		n.buf = appendVar(n.buf, f.name, f.value)
	}
	err := n.conn.SetWriteDeadline(time.Now().Add(within))
	if err == nil {
		_, err = n.quick.Write(n.buf)
	}
	if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENOBUFS) {
		err = n.attach(n.buf)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = n.conn.Close() // the next entry tries again
		n.conn = nil
	}
	return err
}

// attach sends an entry that is too large for a datagram as a file.
func (n *native) attach(entry []byte) error {
	fd, err := unix.MemfdCreate("journal-entry", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "journal-entry")
	defer f.Close()
	if _, err := f.Write(entry); err != nil {
		return err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	raw, err := n.conn.SyscallConn() // WriteMsgUnix is for unconnected sockets
	if err != nil {
		return err
	}
	waited := raw.Write(func(socket uintptr) (done bool) {
		_, err = unix.SendmsgN(int(socket), nil, unix.UnixRights(fd), nil, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	return errors.Join(waited, err)
}

// appendVar adds a field in the journal's native protocol
// (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/).
func appendVar(b []byte, name, value string) []byte {
	b = append(b, name...)
	if strings.Contains(value, "\n") {
		b = binary.LittleEndian.AppendUint64(append(b, '\n'), uint64(len(value)))
	} else {
		b = append(b, '=')
	}
	return append(append(b, value...), '\n')
}
