package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/proxy/appserver/appservertest"
)

// status reads a figure of a process out of /proc, in bytes.
func status(t *testing.T, pid int, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			require.NoError(t, err)
			return n << 10
		}
	}
	require.FailNow(t, "no "+name)
	panic("unreachable")
}

// hostile are bodies that take much memory for what they are: the ones that the search
// of the package proxy finds, in the size that is allowed.
func hostile() map[string][]string {
	const size = 15 << 20
	many := func(element string, n int) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	long := func(piece string) string { return `"` + strings.Repeat(piece, size/len(piece)) + `"` }
	chat := func(messages string) string { return `{"model":"demo","stream":true,"messages":[` + messages + `]}` }
	said := func(words string) string { return `{"role":"user","content":` + words + `}` }
	calls := `{"role":"assistant","tool_calls":[` + many("{}", 9000) + `]}`
	return map[string][]string{
		"/v1/chat/completions": {
			chat(many(calls, 500)), chat(many(calls, 55)), chat(said(long("x"))), chat(said(long(`\n`))), chat(said(long(`\u0001`))), chat(said(long("é"))),
			chat(`{"role":"system","content":` + long("<") + `},` + said(`"x"`)), chat(many(said(`[`+many(`{"type":"text","text":""}`, 1000)+`]`), 95)),
			`{"model":"demo","n":4,"messages":[` + said(long("x")) + `]}`,
			`{"model":"demo","messages":[` + said(`"x"`) + `],"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","description":` + long("x") + `}}}}`,
		},
		"/v1/responses": {
			`{"model":"demo","input":"x","instructions":` + long("<") + `}`, `{"model":"demo","input":"x","stream":true,"instructions":` + long("x") + `}`,
			`{"model":"demo","stream":true,"input":` + long(`\"`) + `}`, `{"model":"demo","input":[` + many(`{"role":"user","content":""}`, 10_000) + `]}`,
			`{"model":"demo","input":[` + many(said(`[`+many(`{"type":"input_text","text":""}`, 9000)+`]`), 11) + `]}`,
			`{"model":"demo","input":"x","text":{"format":{"type":"json_schema","name":"a","schema":{"type":"object","description":` + long("x") + `}}}}`,
		},
	}
}

// However hostile the bodies are that come at the same time, the process takes twice
// request_memory for them at most.
func TestPeakMemory(t *testing.T) {
	const limit = 128 << 20
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	s := process(t, fmt.Sprintf("request_memory=%d", limit), "queue_timeout=55s")
	s.worker(t, &appservertest.Server{Handler: appservertest.Reply("x")})
	s.note(t, "READY=1")
	idle := status(t, s.pid, "VmHWM")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var g errgroup.Group
	for path, bodies := range hostile() {
		for _, body := range bodies {
			g.Go(func() error {
				resp, err := client.Post(s.url+path, "application/json", strings.NewReader(body))
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				t.Logf("%d bytes, %.40s…: %s", len(body), body, resp.Status)
				_, err = io.Copy(io.Discard, resp.Body)
				if resp.StatusCode >= http.StatusInternalServerError {
					return fmt.Errorf("%.40s… got no room: %s", body, resp.Status)
				}
				return err
			})
		}
	}
	require.NoError(t, g.Wait())
	peak := status(t, s.pid, "VmHWM")
	t.Logf("idle %d MiB, peak %d MiB: %.2f times request_memory", idle>>20, peak>>20, float64(peak-idle)/limit)
	assert.LessOrEqual(t, peak, 2*int64(limit)+idle)
}
