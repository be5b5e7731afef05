package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/launch"
	"codex-proxy/runner/api/apitest"
	"codex-proxy/runner/outcome"
)

// The console of codex-runner shows sessions on the page of codex-proxy, by a process of its own.
func TestConsole(t *testing.T) {
	daemon := apitest.Start(t, func(c *apitest.Command) {
		<-c.Cancelled()
		c.End(outcome.Outcome{Word: outcome.Cancelled, Text: "It was cancelled."})
	})
	got := try(t, "run", "--socket", daemon.Socket, "--detach", "--", "make")
	require.Equal(t, 0, got.status, got.stderr)
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"console", "--port=0", "--socket", daemon.Socket}, in, &stderr)
		_ = in.Close()
	}()
	t.Cleanup(func() {
		cancel()
		assert.Zero(t, <-ended, &stderr)
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, &stderr)
	link := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+)/#([\w-]{32})\n$`).FindStringSubmatch(line)
	require.Len(t, link, 3, line)
	session := ""
	ask := func(method, path, body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, link[1]+path, bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+session)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { res.Body.Close() })
		require.Equal(t, http.StatusOK, res.StatusCode)
		return res
	}
	var given struct{ Session, Service string }
	require.NoError(t, json.NewDecoder(ask(http.MethodPost, "/api/session", `{"token":"`+link[2]+`"}`).Body).Decode(&given))
	session = given.Session
	assert.Equal(t, "codex-runner", given.Service)
	stream := json.NewDecoder(ask(http.MethodGet, "/api/watch", "").Body)
	var first struct {
		Whole   bool                  `json:"sessions_whole"`
		Runner  struct{ Ready bool }  `json:"runner"`
		Changed []struct{ ID string } `json:"changed"`
	}
	require.NoError(t, stream.Decode(&first))
	assert.True(t, first.Whole && first.Runner.Ready)
	require.Len(t, first.Changed, 1)
	ask(http.MethodPost, "/api/do", `{"verb":"cancel","words":{"session":"`+first.Changed[0].ID+`"}}`)
	text, err := io.ReadAll(ask(http.MethodPost, "/api/follow", `{"verb":"log","words":{"session":"`+first.Changed[0].ID+`","command":"1"}}`).Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), "It was cancelled.")
	assert.Equal(t, 1, try(t, "console", "--port=80", "--socket", daemon.Socket).status)
	assert.Equal(t, 1, try(t, "console", "--socket", "/nowhere").status)
}

// TestMain is the server of the console, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == launch.Command {
		main()
	}
	os.Exit(m.Run())
}
