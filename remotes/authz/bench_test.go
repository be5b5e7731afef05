package authz

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const handshake = "GET /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: NYaBh0NU4ATcp+ljqOLlNg==\r\n\r\n"

// bytesServer answers the handshake, and has the rest of each connection served by f.
func bytesServer(b *testing.B, f func(in *bufio.Reader, conn net.Conn)) (socket string) {
	b.Helper()
	socket = filepath.Join(b.TempDir(), "codex.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(b, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				in := bufio.NewReaderSize(conn, 64<<10)
				if _, err := readHead(in); err != nil {
					return
				}
				if _, err := io.WriteString(conn, upgrade{key: "x"}.accept()); err == nil {
					f(in, conn)
				}
			})
		}
	})
	b.Cleanup(func() { l.Close(); serving.Wait() })
	return socket
}

// splice copies the bytes of both directions, as notify's relay does without a proxy.
func splice(b *testing.B, target string) (socket string) {
	b.Helper()
	socket = filepath.Join(b.TempDir(), "splice.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(b, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			codex, err := net.Dial("unix", target)
			if err != nil {
				return
			}
			serving.Go(func() { _, _ = io.Copy(codex, client); _ = codex.(*net.UnixConn).CloseWrite() })
			serving.Go(func() { _, _ = io.Copy(client, codex); client.Close(); codex.Close() })
		}
	})
	b.Cleanup(func() { l.Close(); serving.Wait() })
	return socket
}

func raw(b *testing.B, socket string) (*bufio.Reader, net.Conn) {
	b.Helper()
	conn, err := net.Dial("unix", socket)
	require.NoError(b, err)
	b.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, handshake)
	require.NoError(b, err)
	in := bufio.NewReaderSize(conn, 64<<10)
	_, err = readHead(in)
	require.NoError(b, err)
	return in, conn
}

func beside(b *testing.B, target string, f func(b *testing.B, socket string)) {
	b.Run("bare", func(b *testing.B) { f(b, target) })
	b.Run("splice", func(b *testing.B) { f(b, splice(b, target)) })
	b.Run("authz", func(b *testing.B) {
		owner, _ := open(b, &Proxy{}, target)
		f(b, owner)
	})
}

// A round trip of a small message.
func BenchmarkRoundTrip(b *testing.B) {
	request := masked(header{fin: true, op: text},
		`{"id":7,"method":"thread/read","params":{"threadId":"01a208dc-0765-7e43-9747-4ba1137e17bf"}}`)
	body := `{"id":7,"result":{"thread":{"id":"01a208dc-0765-7e43-9747-4ba1137e17bf"}}}`
	reply := append(appendHeader(nil, header{fin: true, op: text, length: int64(len(body))}), body...)
	target := bytesServer(b, func(in *bufio.Reader, conn net.Conn) {
		buf := make([]byte, len(request))
		for {
			if _, err := io.ReadFull(in, buf); err != nil {
				return
			}
			if _, err := conn.Write(reply); err != nil {
				return
			}
		}
	})
	beside(b, target, func(b *testing.B, socket string) {
		in, conn := raw(b, socket)
		buf := make([]byte, len(reply))
		for b.Loop() {
			if _, err := conn.Write(request); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(in, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What codex sends: many small deltas, long items.
func BenchmarkToClient(b *testing.B) {
	for _, size := range []int{300, 64 << 10, 4 << 20} {
		delta := `{"method":"item/agentMessage/delta","params":{"delta":"` + strings.Repeat("x", size-57) + `"}}`
		frame := append(appendHeader(nil, header{fin: true, op: text, length: int64(len(delta))}), delta...)
		batch := frame
		for len(batch) < 64<<10 { // codex writes what it has at once
			batch = append(batch, frame...)
		}
		target := bytesServer(b, func(_ *bufio.Reader, conn net.Conn) {
			for {
				if _, err := conn.Write(batch); err != nil {
					return
				}
			}
		})
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			beside(b, target, func(b *testing.B, socket string) {
				in, _ := raw(b, socket)
				buf := make([]byte, len(batch))
				b.SetBytes(int64(len(batch)))
				for b.Loop() {
					if _, err := io.ReadFull(in, buf); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// What a client sends: images, in messages of some size.
func BenchmarkToCodex(b *testing.B) {
	for _, size := range []int{300, 64 << 10, 4 << 20} {
		frame := masked(header{fin: true, op: text},
			`{"id":7,"method":"turn/start","params":{"input":"`+strings.Repeat("x", size-51)+`"}}`)
		batch := frame
		for len(batch) < 64<<10 {
			batch = append(batch, frame...)
		}
		target := bytesServer(b, func(in *bufio.Reader, _ net.Conn) {
			buf := make([]byte, 256<<10)
			for {
				if _, err := in.Read(buf); err != nil {
					return
				}
			}
		})
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			beside(b, target, func(b *testing.B, socket string) {
				_, conn := raw(b, socket)
				b.SetBytes(int64(len(batch)))
				for b.Loop() {
					if _, err := conn.Write(batch); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
