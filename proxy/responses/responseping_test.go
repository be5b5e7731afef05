package responses_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/api"
	"codex-proxy/proxy/api/apitest"
)

// wireFrame reads an unmasked frame of a WebSocket. Source: RFC 6455, section 5.2.
func wireFrame(t *testing.T, from io.Reader) (first byte, payload string) {
	t.Helper()
	next := func(n int) []byte {
		b := make([]byte, n)
		_, err := io.ReadFull(from, b)
		require.NoError(t, err)
		return b
	}
	head := next(2)
	size := int(head[1])
	switch size {
	case 126:
		size = int(binary.BigEndian.Uint16(next(2)))
	case 127:
		size = int(binary.BigEndian.Uint64(next(8)))
	}
	return head[0], string(next(size))
}

// masked is a frame of a client, whose mask changes nothing.
func masked(first byte, payload string) string {
	head := []byte{first, 0x80 | byte(len(payload))}
	if len(payload) > 125 {
		head[1] = 0x80 | 127
		head = binary.BigEndian.AppendUint64(head, uint64(len(payload)))
	}
	return string(append(head, 0, 0, 0, 0)) + payload
}

// A ping is answered between the frames of a message that the client has not read for
// long, and the connection stays.
func TestPingsDuringALongMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := apitest.Piped(t, func(s *api.Settings) { s.BodyLimit, s.RequestMemory = 1<<20, 1<<26 })
		_, err := io.WriteString(client, apitest.Upgrading)
		require.NoError(t, err)
		answer := bufio.NewReader(client)
		head, err := http.ReadResponse(answer, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, head.StatusCode)
		_, err = io.WriteString(client, masked(0x81, apitest.Create(
			`"generate":false,"store":false,"instructions":"`+strings.Repeat("x", 150_000)+`",`, `"q"`)))
		require.NoError(t, err)
		<-time.After(30 * time.Second)
		for _, ping := range []string{"one", "two"} { // the last one needs an answer
			_, err = io.WriteString(client, masked(0x89, ping))
			require.NoError(t, err)
		}
		<-time.After(30 * time.Second)
		first, text := wireFrame(t, answer)
		assert.EqualValues(t, 0x01, first, "a text, and more of it follows")
		first, payload := wireFrame(t, answer)
		assert.EqualValues(t, 0x8a, first)
		assert.Equal(t, "two", payload)
		for first != 0x80 {
			first, payload = wireFrame(t, answer)
			text += payload
		}
		assert.Equal(t, "response.created", apitest.Read[apitest.Seen](t, text).Type)
		for range 2 {
			for first, text = wireFrame(t, answer); first&0x80 == 0; text += payload {
				first, payload = wireFrame(t, answer)
			}
			assert.NotEqual(t, "response.created", apitest.Read[apitest.Seen](t, text).Type)
		}
		assert.Equal(t, "response.completed", apitest.Read[apitest.Seen](t, text).Type)
		_, err = io.WriteString(client, masked(0x89, "idle"))
		require.NoError(t, err)
		first, payload = wireFrame(t, answer)
		assert.EqualValues(t, 0x8a, first)
		assert.Equal(t, "idle", payload)
		require.NoError(t, client.Close())
		leave()
	})
}

// Without memory for a message, the server gives it up before the client gives up the answer to a ping.
func TestPingsWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, client, leave := apitest.PipedAPI(t, func(s *api.Settings) {
			s.BodyLimit, s.RequestMemory, s.QueueTimeout = 1<<20, 1<<26, time.Hour
		})
		full := apitest.Fill(t, api.Memory)
		_, err := io.WriteString(client, apitest.Upgrading)
		require.NoError(t, err)
		answer := bufio.NewReader(client)
		_, err = http.ReadResponse(answer, nil)
		require.NoError(t, err)
		began := time.Now()
		go func() {
			_, _ = io.WriteString(client, masked(0x81, apitest.Create("", `"`+strings.Repeat("x", 20<<10)+`"`)))
			_, _ = io.WriteString(client, masked(0x89, "there?"))
		}()
		_, text := wireFrame(t, answer)
		assert.Contains(t, text, "overloaded")
		_, payload := wireFrame(t, answer)
		assert.Equal(t, "there?", payload)
		assert.Less(t, time.Since(began), 20*time.Second)
		full.Release()
		require.NoError(t, client.Close())
		leave()
	})
}

// A connection without a response for longer than a client may take to read stays open.
func TestPingsAfterAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, leave := apitest.Piped(t, func(s *api.Settings) {
			s.BodyLimit, s.RequestMemory, s.IdleTimeout, s.Keepalive = 1<<20, 1<<26, time.Minute, 15*time.Second
		})
		_, err := io.WriteString(client, apitest.Upgrading)
		require.NoError(t, err)
		answer := bufio.NewReader(client)
		_, err = http.ReadResponse(answer, nil)
		require.NoError(t, err)
		_, err = io.WriteString(client, masked(0x81, apitest.Create(`"generate":false,"store":false,`, `"q"`)))
		require.NoError(t, err)
		for text := ""; !strings.Contains(text, "response.completed"); {
			_, text = wireFrame(t, answer)
		}
		for range 20 {
			first, payload := wireFrame(t, answer)
			require.EqualValues(t, 0x89, first)
			_, err = io.WriteString(client, masked(0x8a, payload))
			require.NoError(t, err)
		}
		require.NoError(t, client.Close())
		leave()
	})
}
