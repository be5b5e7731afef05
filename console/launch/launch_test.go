package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// seen is what a server sees of the process that has started it.
type seen struct {
	Own, Session int
	TTY          string
	Files        []string
}

// TestMain is the server, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(server())
	}
	os.Exit(m.Run())
}

func server() int {
	files, _ := filepath.Glob("/proc/self/fd/*") // before Go opens its own
	orders, _, text, err := Inherited(os.Stdin)
	if err != nil {
		return 1
	}
	fmt.Fprint(os.Stderr, "said \x1b]52;c;eA==\a\xc2\x9bit\n")
	s := seen{Own: os.Getpid()}
	s.Session, _ = unix.Getsid(0)
	stat, _ := os.ReadFile("/proc/self/stat")
	s.TTY = strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[4]
	for _, file := range files {
		to, _ := os.Readlink(file)
		s.Files = append(s.Files, to)
	}
	_ = json.NewEncoder(orders).Encode(s)
	_, _ = orders.Read(make([]byte, 1)) // until the end
	if string(text) == "stay" {
		<-time.After(time.Hour)
	}
	return 0
}

func loopback(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// The server has no terminal, and no file that the caller has left open.
func TestServerInheritsNothing(t *testing.T) {
	left, err := os.Create(filepath.Join(t.TempDir(), "left-open"))
	require.NoError(t, err)
	defer left.Close()
	_, err = unix.FcntlInt(left.Fd(), unix.F_SETFD, 0)
	require.NoError(t, err)
	said, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	require.NoError(t, err)
	defer said.Close()
	c, err := Start(loopback(t), "", said)
	require.NoError(t, err)
	var s seen
	require.NoError(t, json.NewDecoder(c.Orders).Decode(&s))
	assert.Equal(t, s.Own, s.Session, "a session of its own")
	assert.Equal(t, "0", s.TTY)
	for _, file := range s.Files {
		assert.NotContains(t, file, "left-open")
		assert.NotContains(t, file, "terminal")
	}
	require.NoError(t, c.Orders.Close())
	require.NoError(t, <-c.ended)
	text, err := os.ReadFile(said.Name())
	require.NoError(t, err)
	assert.Equal(t, "said ]52;c;eA==it\n", string(text))
}

// A server that does not end by itself is killed, and nothing listens any more.
func TestServerThatStaysIsKilled(t *testing.T) {
	l := loopback(t)
	c, err := Start(l, "stay", io.Discard)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(c.Orders).Decode(&seen{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, c.Wait(ctx))
	require.NoError(t, l.Close())
	_, err = net.Dial("tcp", l.Addr().String())
	assert.ErrorIs(t, err, unix.ECONNREFUSED)
}

func TestSaidIsBounded(t *testing.T) {
	var to strings.Builder
	p := &printable{to: &to, left: maxSaid}
	for range 3 {
		n, err := p.Write(bytes.Repeat([]byte("x"), maxSaid/2))
		require.NoError(t, err)
		assert.Equal(t, maxSaid/2, n)
	}
	assert.Equal(t, maxSaid, to.Len())
}
