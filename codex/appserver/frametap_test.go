package appserver_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tap is a proxy in front of a socket that records the largest WebSocket frame of the client.
type tap struct {
	path string
	mu   sync.Mutex
	max  int
}

func newTap(t *testing.T, target string) *tap {
	t.Helper()
	dir, err := os.MkdirTemp("", "tap")
	require.NoError(t, err)
	p := &tap{path: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", p.path)
	require.NoError(t, err)
	var copying sync.WaitGroup
	copying.Go(func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		server, err := net.Dial("unix", target)
		if err != nil {
			return
		}
		defer server.Close()
		copying.Go(func() { _, _ = io.Copy(client, server); client.Close() })
		_ = p.pass(client, server)
	})
	t.Cleanup(func() {
		l.Close()
		copying.Wait()
		os.RemoveAll(dir)
	})
	return p
}

func (p *tap) largest() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.max
}

// pass copies the upgrade request, and then one frame after another (RFC 6455, 5.2).
func (p *tap) pass(client io.Reader, server io.Writer) error {
	in := bufio.NewReader(client)
	upgrade, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	if err := upgrade.Write(server); err != nil {
		return err
	}
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		size := uint64(head[1] & 0x7f)
		if size >= 126 {
			more := make([]byte, 2)
			if size == 127 {
				more = make([]byte, 8)
			}
			if _, err := io.ReadFull(in, more); err != nil {
				return err
			}
			head = append(head, more...)
			size = binary.BigEndian.Uint64(append(make([]byte, 8-len(more)), more...))
		}
		p.mu.Lock()
		p.max = max(p.max, int(size))
		p.mu.Unlock()
		if _, err := server.Write(head); err != nil {
			return err
		}
		if _, err := io.CopyN(server, in, int64(size)+4); err != nil { // and the mask
			return err
		}
	}
}
