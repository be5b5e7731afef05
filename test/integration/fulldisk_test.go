package integration

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A service that starts on a full disk answers, reports what it cannot store, and stores
// responses and usage as soon as there is room, without a reload.
func TestStartOnAFullDisk(t *testing.T) { bothSuites(t, testStartOnAFullDisk) }

func testStartOnAFullDisk(t *testing.T, suite string) {
	b := newBed(t, suite, realWorker, "")
	b.smallDisk()
	b.fillDisk()
	b.start()
	client := b.client()
	ask := func() *responses.Response {
		t.Helper()
		require.NoError(t, b.models.Script("text Hello.", "usage 21 8 13 5"))
		params := responses.ResponseNewParams{Model: model,
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("q")}}
		got, err := client.Responses.New(t.Context(), params)
		require.NoError(t, err)
		return got
	}
	status, answer := b.get("/v1/responses/" + ask().ID)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, string(answer), "responses_unavailable")
	_, metrics := b.get("/metrics")
	assert.Regexp(t, `(?m)^codex_response_write_failures_total [1-9]`, string(metrics))
	assert.Regexp(t, `(?m)^codex_usage_write_failures_total [1-9]`, string(metrics))
	status, answer = b.called(http.MethodPost, "", inBackground(true, "nobody keeps it"))
	assert.Equal(t, http.StatusServiceUnavailable, status, string(answer))
	assert.Contains(t, string(answer), "responses_unavailable")
	_, output, err := b.Run(t.Context(), "codex-proxy", "usage")
	require.Error(t, err)
	assert.Contains(t, output, "nothing could be written to it yet: is the disk full?")
	assert.Contains(t, b.found("databases", "its file system is full"), "df /var/lib/codex-proxy")

	b.emptyDisk()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	for !strings.Contains(b.journal(proxyUnit),
		"responses are kept again") { // the pause between two tries is part of the wait
		require.NoError(t, ctx.Err(), "never opened")
	}
	_, err = client.Responses.Get(t.Context(), ask().ID, responses.ResponseGetParams{})
	require.NoError(t, err)
	for !strings.Contains(b.MustRun(t, "sh", "-c", "codex-proxy usage 2>&1 || true"), model) {
		require.NoError(t, ctx.Err(), "usage is never written")
	}
	log := b.journal(proxyUnit)
	assert.Equal(t, 1, strings.Count(log, "no response is kept for now"), log)
	assert.Equal(t, 1, strings.Count(log, "usage is not written for now"), log)
	assert.NotContains(t, log, "a response is not stored")
	assert.NotContains(t, log, "cannot write the usage database")
}

// smallDisk gives the service a small file system for its state.
func (b *bed) smallDisk() {
	b.t.Helper()
	b.MustRun(b.t, "sh", "-ec", `mkdir -p /var/lib/codex-proxy; mount -t tmpfs -o size=8m none /var/lib/codex-proxy
		chown codex-proxy:codex-proxy /var/lib/codex-proxy; chmod 0700 /var/lib/codex-proxy`)
}

// fillDisk leaves no room there.
func (b *bed) fillDisk() {
	b.t.Helper()
	b.MustRun(b.t, "sh", "-c", "cat /dev/zero >/var/lib/codex-proxy/filler 2>/dev/null || true")
}

// emptyDisk gives the room back.
func (b *bed) emptyDisk() {
	b.t.Helper()
	b.MustRun(b.t, "rm", "/var/lib/codex-proxy/filler")
}

// A response in the background whose events no disk takes any more fails with the reason, also for clients that come
// meanwhile, and for the next process.
func TestBackgroundOnAFullDisk(t *testing.T) { bothSuites(t, testBackgroundOnAFullDisk) }

func testBackgroundOnAFullDisk(t *testing.T, suite string) {
	const reason = "the disk of the service is full"
	b := newBed(t, suite, realWorker, "")
	b.smallDisk()
	b.start()
	first := b.stream("[[text one ]][[gate full]][[huge 100000]][[text two]]", "one ")
	b.fillDisk()
	b.models.Release("full")
	got := first.whole(t)
	b.assertFailed(first.id, got, reason)
	b.emptyDisk()
	b.assertFailed(first.id, got, reason)
	require.NoError(t, b.models.Script("text fine"))
	assert.Equal(t, "response.completed", assertWhole(t, b.stream("next", "fine").whole(t)).kind)
	b.MustRun(t, "systemctl", "restart", proxyUnit)
	b.assertFailed(first.id, got, reason)
}
