package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
	"codex-proxy/test/modelserver"
)

func TestJournal(t *testing.T) { bed.BothSuites(t, testJournal) }

func testJournal(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	status, header, _ := b.Chat(false, "[[text a secret answer]] to a secret question")
	require.Equal(t, http.StatusOK, status)
	id := header.Get("X-Request-Id")
	status, header, _ = b.Chat(true, "[[text a]][[failed server_error oops]]")
	require.Equal(t, http.StatusOK, status)
	broken := header.Get("X-Request-Id")
	b.KillCodex()
	b.Until("ready", bed.Ready)
	for _, id := range []string{id, broken} { // an answer goes before its line
		await.True(t, func() bool {
			return len(b.Entries(t, "CODEX_REQUEST_ID="+id, "CODEX_EVENT=request")) > 0
		}, bed.Bound, id)
	}
	b.AwaitJournal(bed.ProxyUnit, "worker is down", bed.Bound)

	t.Run("a request", func(t *testing.T) {
		of := b.Entries(t, "CODEX_REQUEST_ID="+id)
		require.Len(t, of, 1)
		e := of[0]
		assert.Equal(t, "request", e["CODEX_EVENT"])
		assert.Equal(t, "6", e["PRIORITY"])
		assert.Equal(t, "codex-proxy.service", e["_SYSTEMD_UNIT"])
		assert.Equal(t, "200", e["CODEX_STATUS"])
		assert.Equal(t, "default", e["CODEX_WORKER"])
		assert.Equal(t, bed.Model, e["CODEX_MODEL"])
		assert.Regexp(t, `^[0-9a-f-]{36}$`, e["CODEX_THREAD_ID"])
		assert.Regexp(t, `^[0-9.]+$`, e["CODEX_TTFB_MS"])
		assert.Contains(t, e["MESSAGE"], "request request_id="+id)
	})

	t.Run("a broken stream", func(t *testing.T) {
		b.MustRun(t, "journalctl", "--sync")
		remedy := b.MustRun(t, "sed", "-n", `/alert: CodexStreamsBreak/,/remedy:/s/^ *remedy: "\(.*\)"$/\1/p`,
			"/usr/share/codex-proxy/alerts.yaml")
		found := b.MustRun(t, "sh", "-ec", remedy)
		assert.Contains(t, found, broken)
		assert.NotContains(t, found, id)
	})

	t.Run("a worker", func(t *testing.T) {
		down := b.Entries(t, "CODEX_EVENT=worker-down")
		require.NotEmpty(t, down)
		assert.Equal(t, bed.WorkerUnit, down[0]["CODEX_UNIT"])
		assert.Equal(t, "backing_off", down[0]["CODEX_REASON"])
		assert.Equal(t, "killed by SIGKILL (signal)", down[0]["CODEX_LAST_EXIT"])
	})

	// codex misses bubblewrap here, and logs that as an error.
	t.Run("codex's own lines", func(t *testing.T) {
		of := b.Entries(t, "CODEX_EVENT=codex", "CODEX_TARGET=codex_app_server")
		require.NotEmpty(t, of)
		assert.Equal(t, "3", of[0]["PRIORITY"])
		assert.Equal(t, bed.WorkerUnit, of[0]["_SYSTEMD_UNIT"])
		assert.Regexp(t, `^Codex could not find bubblewrap`, of[0]["MESSAGE"])
	})

	t.Run("explanations", func(t *testing.T) {
		out := b.MustRun(t, "journalctl", "--no-pager", "--catalog", "CODEX_EVENT=worker-down")
		assert.Contains(t, out, "Subject: A worker has ended, and systemd waits to start it again")
		assert.Contains(t, out, "codex-worker@default.service ended: killed by SIGKILL (signal).")
		assert.NotContains(t, out, "@CODEX_")
	})

	t.Run("content is not there", func(t *testing.T) {
		out, err := b.Journal(t.Context(), "--output=export", "--all")
		require.NoError(t, err)
		assert.NotContains(t, out, "a secret")
	})

	t.Run("queries", func(t *testing.T) {
		blocks := manual.Open(t, "docs/journal.md").Commands()
		require.GreaterOrEqual(t, len(blocks), 15)
		found := 0
		for _, block := range blocks {
			query := strings.NewReplacer("req_0", id).Replace(block)
			out, stderr, err := b.Run(t.Context(), "sh", "-c", query)
			assert.Empty(t, stderr, query)
			if strings.Contains(query, "outcome=") {
				assert.Contains(t, out, broken)
				assert.NotContains(t, out, id)
			}
			if err == nil && !strings.HasPrefix(out, "-- No entries --") {
				found++
			}
		}
		assert.GreaterOrEqual(t, found, 9, "queries that find nothing in a life with a restart prove nothing")
	})
}

// One query shows the whole of a request whose worker dies: the lines of the proxy, and
// those of both processes of codex.
func TestJournalOfARequest(t *testing.T) { bed.EitherSuite(t, testJournalOfARequest) }

func testJournalOfARequest(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, bed.Patient)
	b.MustRun(t, "sh", "-ec", `mkdir -p /etc/systemd/system/codex-worker@.service.d
printf '[Service]\nEnvironment=RUST_LOG=info\n' >/etc/systemd/system/codex-worker@.service.d/log.conf
systemctl daemon-reload`)
	b.Start()
	const id = "req-of-two-lives"
	status := make(chan int, 1)
	go func() {
		req, _ := http.NewRequest(http.MethodPost, bed.Base+"/v1/chat/completions",
			strings.NewReader(`{"model":"`+bed.Model+
				`","messages":[{"role":"user","content":"a secret [[gate story]] [[text done]]"}]}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-Id", id)
		res, err := b.HTTP.Do(req)
		if err != nil {
			status <- 0
			return
		}
		_ = res.Body.Close()
		status <- res.StatusCode
	}()
	ctx, cancel := context.WithTimeout(t.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.AtLeast(1))
	require.NoError(t, err)
	await.True(t, func() bool {
		return len(b.Entries(t, "CODEX_REQUEST_ID="+id)) > 0
	}, bed.Bound, "codex logs the request")
	b.Signal(b.Codex(), unix.SIGKILL)
	_, err = b.Models.Wait(ctx, modelserver.AtLeast(2))
	require.NoError(t, err)
	b.Models.Release("story")
	require.Equal(t, http.StatusOK, <-status)
	await.True(t, func() bool {
		return len(b.Entries(t, "CODEX_REQUEST_ID="+id, "CODEX_EVENT=request")) > 0
	}, bed.Bound, "the answer goes before its line")

	lives := map[any]bool{}
	var events []string
	for _, e := range b.Entries(t, "CODEX_REQUEST_ID="+id) {
		assert.NotContains(t, fmt.Sprint(e), "a secret")
		if e["_SYSTEMD_UNIT"] == bed.WorkerUnit {
			lives[e["_SYSTEMD_INVOCATION_ID"]] = true
			assert.NotEmpty(t, e["CODEX_THREAD_ID"])
			continue
		}
		assert.Equal(t, bed.ProxyUnit, e["_SYSTEMD_UNIT"])
		events = append(events, e["CODEX_EVENT"].(string))
	}
	assert.Equal(t, []string{"turn-lost", "request"}, events)
	assert.Len(t, lives, 2, "codex was killed, and its successor served the request")
}
