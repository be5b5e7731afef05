package login

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/codexaccount"
	"codex-proxy/workers/broker"
)

// served answers the connections of a socket, and returns its path.
func served(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return socket
}

// The broker gets the token, and the daemon what codex says of the account; no question shows the refresh token.
func TestQuestions(t *testing.T) {
	b := startLender(t, nil, "")
	socket := served(t, func(conn net.Conn) { b.serve(context.Background(), conn, true) })
	login, err := Ask(within(t), socket, "")
	require.NoError(t, err)
	assert.Equal(t, b.account.ID(), login.AccountID)
	b.account.Expire()
	fresh, err := Ask(within(t), socket, login.AccessToken)
	require.NoError(t, err)
	assert.NotEqual(t, login.AccessToken, fresh.AccessToken)

	account, err := codexaccount.Read(within(t), Account{socket})
	require.NoError(t, err)
	assert.Equal(t, b.account.Email(), account.Login.Email)
	limits, err := codexaccount.ReadLimits(within(t), Account{socket})
	require.NoError(t, err)
	assert.NotNil(t, limits.RateLimits.Primary)

	for _, method := range []string{"account/logout", "fs/readFile", "getAuthStatus", "account/login/start", ""} {
		err := Account{socket}.Call(within(t), method, map[string]any{"path": b.Home + "/auth.json"}, nil)
		assert.ErrorContains(t, err, "answers questions for its account alone", method)
	}
	for _, line := range []string{"codex-proxy account {\n", "codex-proxy x\n", "codex-proxy login\n",
		"codex-proxy own login x\n"} {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		_, err = conn.Write([]byte(line))
		require.NoError(t, err)
		text, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "refresh-SECRET", line)
		_ = conn.Close()
	}
}

// An API key is for the worker's own broker, and is not lent.
func TestOwnAPIKey(t *testing.T) {
	b := startLender(t, func([]byte) []byte { return []byte(`{"auth_mode":"apikey","OPENAI_API_KEY":"sk-x"}`) }, "")
	socket := served(t, func(conn net.Conn) { b.serve(context.Background(), conn, true) })
	login, err := Ask(within(t), socket, "")
	require.NoError(t, err)
	assert.Equal(t, broker.Login{AccessToken: "sk-x"}, login)
	_, err = Ask(within(t), socket, "sk-x")
	assert.Equal(t, broker.LoginInvalid, broker.CodeOf(err))
	ofDaemon := served(t, func(conn net.Conn) { b.serve(context.Background(), conn, false) })
	_, err = Ask(within(t), ofDaemon, "")
	require.Error(t, err)
	assert.Empty(t, broker.CodeOf(err), "no answer")
}

// A unit with a fault says so to the broker and to the daemon; one that is gone is no answer.
func TestFaults(t *testing.T) {
	socket := served(t, func(conn net.Conn) { refuse(conn, &broker.Error{Code: broker.NoAccount, Message: "no login"}) })
	_, err := Ask(within(t), socket, "")
	assert.Equal(t, broker.NoAccount, broker.CodeOf(err))
	_, err = codexaccount.Read(within(t), Account{socket})
	assert.ErrorContains(t, err, "no login")

	socket = served(t, func(net.Conn) {})
	_, err = Ask(within(t), socket, "")
	require.Error(t, err)
	assert.Empty(t, broker.CodeOf(err))
}

// The time runs while there is no question, and ends once.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		i := newIdle(time.Minute)
		end := i.begin()
		<-time.After(2 * time.Minute)
		end()
		<-i.over
		assert.Equal(t, 3*time.Minute, time.Since(began))
		i.begin()()
		<-time.After(2 * time.Minute)
	})
}
