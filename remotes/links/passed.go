package links

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Pass sends a link to a successor: its state in this process, and descriptors of the connections to its client and
// to its remote, which it must not close.
type Pass func(about any, fds ...int) error

// wireLink is a link on the wire between two processes.
type wireLink struct {
	*passport
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
}

// handOff gives the link to a successor.
func (k *link) handOff(pass Pass) error {
	client, err := rawOf(k.client)
	if err != nil {
		return err
	}
	remote, err := rawOf(k.remote)
	if err != nil {
		return err
	}
	var failed, inner error
	failed = client.Control(func(c uintptr) {
		inner = remote.Control(func(r uintptr) {
			err = pass(wireLink{k.passport, k.Sent.Load(), k.Received.Load()}, int(c), int(r))
		})
	})
	if err := errors.Join(failed, inner, err); err != nil {
		return err
	}
	_ = k.client.Close() // the successor's descriptors keep both connections open
	_ = k.remote.Close()
	return nil
}

func rawOf(c net.Conn) (syscall.RawConn, error) {
	from, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T has no descriptor", c)
	}
	return from.SyscallConn()
}

// Adopt takes over a link that a predecessor has passed on. It closes the files.
func (l *Links) Adopt(about json.RawMessage, files []*os.File) error {
	defer func() {
		for _, f := range files {
			_ = f.Close() // net.FileConn has duplicates
		}
	}()
	w := wireLink{passport: &passport{}}
	if err := json.Unmarshal(about, &w); err != nil || len(files) != 2 {
		return errors.Join(fmt.Errorf("a connection to a remote came with %d descriptors", len(files)), err)
	}
	var ends [2]conn
	for i, f := range files {
		c, err := net.FileConn(f)
		if err != nil {
			return err
		}
		half, ok := c.(conn)
		if !ok {
			return errors.Join(fmt.Errorf("a connection to a remote is a %T", c), c.Close())
		}
		ends[i] = half
	}
	k := &link{passport: w.passport, settings: l.Settings, client: ends[0], remote: ends[1]}
	k.Sent.Store(w.Sent)
	k.Received.Store(w.Received)
	l.mu.Lock()
	l.pending++
	l.ofKey[k.Key]++
	l.ofRemote[k.Remote]++
	l.mu.Unlock()
	l.begin(k)
	return nil
}
