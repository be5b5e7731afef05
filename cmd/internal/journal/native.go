package journal

import (
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"codex-proxy/proxy/direct"
)

// nativeSocket is where the journal listens (systemd-journald.service(8)).
const nativeSocket = "/run/systemd/journal/socket"

// patience bounds the writing of an entry that the journal is too busy for.
const patience = time.Second

// native sends entries over a connection of its own, as every request writes one:
// see package direct. What does not go that way, such as an entry too large for a
// datagram, goes the library's.
type native struct {
	path string

	mu   sync.Mutex
	conn net.Conn
	buf  []byte
}

func (n *native) send(message string, p journal.Priority, vars []field) error {
	if n.try(message, p, vars) {
		return nil
	}
	all := map[string]string{}
	for _, f := range vars {
		all[f.name] = f.value
	}
	return journal.Send(message, p, all)
}

func (n *native) try(message string, p journal.Priority, vars []field) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == nil {
		c, err := net.Dial("unixgram", n.path)
		if err != nil {
			return false
		}
		n.conn = direct.Conn(c)
	}
	n.buf = appendVar(n.buf[:0], "PRIORITY", strconv.Itoa(int(p)))
	n.buf = appendVar(n.buf, "MESSAGE", message)
	for _, f := range vars {
		n.buf = appendVar(n.buf, f.name, f.value)
	}
	err := n.conn.SetWriteDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = n.conn.Write(n.buf)
	}
	if err != nil {
		_ = n.conn.Close() // the next entry tries again
		n.conn = nil
	}
	return err == nil
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
