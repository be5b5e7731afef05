package fetch

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// nameServer answers the n-th question for an IPv4 address with the n-th of
// answers, the last one for ever, and knows no IPv6. asked counts questions.
func nameServer(t *testing.T, answers ...netip.Addr) (r *net.Resolver, asked *atomic.Int32) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	asked = new(atomic.Int32)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		question := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			var ip netip.Addr
			if binary.BigEndian.Uint16(question[questionEnd(question)-4:]) == 1 { // QTYPE A
				ip = answers[min(int(asked.Add(1)), len(answers))-1]
			}
			_, _ = conn.WriteTo(answer(question[:n], ip), from)
		}
	}()
	t.Cleanup(func() { conn.Close(); <-ended })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, asked
}

// questionEnd is behind the header, the name, QTYPE and QCLASS (RFC 1035, 4.1).
func questionEnd(message []byte) int {
	i := 12
	for message[i] != 0 {
		i += int(message[i]) + 1
	}
	return i + 5
}

// answer repeats the question, with ip if there is one.
func answer(question []byte, ip netip.Addr) []byte {
	message := append([]byte(nil), question[:questionEnd(question)]...)
	binary.BigEndian.PutUint16(message[2:], 0x8180) // QR, RD, RA
	message = append(message[:6:6], append([]byte{0, 0, 0, 0, 0, 0}, message[12:]...)...)
	if ip.IsValid() {
		message[7] = 1 // ANCOUNT
		message = append(message, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		message = append(message, ip.AsSlice()...)
	}
	return message
}
