package handoff

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pair returns the end of this program and the plain socket of the other process.
func pair(t *testing.T, log *bytes.Buffer) (*peer, *net.UnixConn) {
	t.Helper()
	ours, theirs, err := newPair(slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	conn, err := net.FileConn(theirs)
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	t.Cleanup(func() { _, _ = ours.conn.Close(), conn.Close() })
	return ours, conn.(*net.UnixConn)
}

func read(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	data := make([]byte, packetLimit)
	n, err := conn.Read(data)
	require.NoError(t, err)
	return string(data[:n])
}

// A process of version 0 gets the kinds that it knows as news. All others get them by name.
func TestSentKinds(t *testing.T) {
	for version, want := range map[int][]string{
		0: {
			`{"kind":"news","version":1,"state":{"workers":["a"]}}`, `{"kind":"news","version":1,"state":"text"}`,
			`{"kind":"drain","version":1}`, `{"kind":"a later one","version":1,"state":1}`,
		},
		1: {
			`{"kind":"drains","version":1,"state":{"workers":["a"]}}`, `{"kind":"keys","version":1,"state":"text"}`,
			`{"kind":"drain","version":1}`, `{"kind":"a later one","version":1,"state":1}`,
		},
	} {
		ours, theirs := pair(t, &bytes.Buffer{})
		ours.version = version
		ours.sendBody(Drains, map[string][]string{"workers": {"a"}})
		ours.sendBody(Keys, "text")
		ours.sendBody(Drain, nil)
		ours.sendBody("a later one", 1)
		for _, message := range want {
			assert.Equal(t, message, read(t, theirs), "to version %d", version)
		}
	}
}

// These are messages as codex-proxy 0.1.0 and the versions up to the first typed one sent
// them to a predecessor.
func TestNewsOfVersion0(t *testing.T) {
	var log bytes.Buffer
	ours, theirs := pair(t, &log)
	messages := []struct {
		sent string
		want Kind
	}{
		{`{"kind":"drain"}`, Drain}, {`{"kind":"hasten"}`, Hasten},
		{`{"kind":"news","state":{"workers":["default"],"undo":true}}`, Drains},
		{`{"kind":"news","state":{"workers":null}}`, Drains},
		{`{"kind":"news","state":"#closed\n"}`, Keys}, {`{"kind":"news","state":{"load":{"heard":3}}}`, Load},
		{`{"kind":"a later one","version":2}`, "a later one"},
	}
	for _, m := range messages {
		_, err := theirs.Write([]byte(m.sent))
		require.NoError(t, err)
	}
	require.NoError(t, theirs.Close())
	var got []Kind
	ours.follow(t.Context(), newsOfSuccessor, func(m Message) bool {
		got = append(got, m.Kind)
		return m.Version == 0
	})
	require.Len(t, got, len(messages))
	for i, m := range messages {
		assert.Equal(t, m.want, got[i], m.sent)
	}
	assert.Contains(t, log.String(), `kind="a later one" version=2`)
	assert.Equal(t, Turns, newsOfPredecessor(json.RawMessage(`{"drains":1,"inflight":{"default":2}}`)))
}

// Messages of an unknown kind do not disturb the hand-off either.
func TestAwaitIgnoresUnknownKinds(t *testing.T) {
	var log bytes.Buffer
	ours, theirs := pair(t, &log)
	for _, sent := range []string{`{"kind":"progress","version":2}`, `{"kind":"ready","serving":true,"text":"well"}`} {
		_, err := theirs.Write([]byte(sent))
		require.NoError(t, err)
	}
	serving, status, err := (&Successor{peer: ours}).Await(t.Context())
	require.NoError(t, err)
	assert.True(t, serving)
	assert.Equal(t, "well", status)
	assert.Zero(t, ours.version, "ready has none")
	assert.Contains(t, log.String(), "kind=progress version=2")
}
