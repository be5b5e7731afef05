package apitest

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/limits"
)

// filled holds all of a memory.
type filled struct{ Helds []limits.Held }

// Fill acquires all memory that is left, also the part that extends other charges.
func Fill(t testing.TB, m *limits.Memory) *filled {
	t.Helper()
	f := &filled{}
	var extended []limits.Held
	for range 64 {
		h := m.Hold("")
		require.True(t, h.TryAcquire(1))
		extended = append(extended, h)
	}
	for before := int64(-1); m.Bytes() > before; {
		before = m.Bytes()
		h := m.Hold("")
		for n := int64(1 << 40); n > 0; n /= 2 {
			for h.TryAcquire(n) {
			}
		}
		f.Helds = append(f.Helds, h)
	}
	for i, n := 0, int64(1<<40); n > 0 && i < len(extended); i++ {
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if extended[i].Add(brief, n) != nil {
			n /= 2
		}
		cancel()
	}
	f.Helds = append(f.Helds, extended...)
	return f
}

// Release gives the memory back.
func (f *filled) Release() {
	for i := range f.Helds {
		f.Helds[i].Release()
	}
}

// Upgrading asks for a WebSocket.
const Upgrading = "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// Upgraded makes a WebSocket of a connection; what is said on it comes when it ends.
func Upgraded(t testing.TB, client net.Conn) <-chan string {
	t.Helper()
	_, err := io.WriteString(client, Upgrading)
	require.NoError(t, err)
	answer := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(client)
		answer <- string(all)
	}()
	return answer
}
