package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// A service that starts on a full disk answers, reports what it cannot store, and stores
// responses and usage as soon as there is room, without a reload.
func TestStartOnAFullDisk(t *testing.T) { bed.EitherSuite(t, testStartOnAFullDisk) }

func testStartOnAFullDisk(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	smallDisk(b)
	fillDisk(b)
	b.Start()
	client := b.Client()
	ask := func() *responses.Response {
		t.Helper()
		require.NoError(t, b.Models.Script("text Hello.", "usage 21 8 13 5"))
		params := responses.ResponseNewParams{Model: bed.Model,
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("q")}}
		got, err := client.Responses.New(t.Context(), params)
		require.NoError(t, err)
		return got
	}
	status, answer := b.Get("/v1/responses/" + ask().ID)
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, string(answer), "responses_unavailable")
	_, metrics := b.Get("/metrics")
	assert.Regexp(t, `(?m)^codex_response_write_failures_total [1-9]`, string(metrics))
	assert.Regexp(t, `(?m)^codex_usage_write_failures_total [1-9]`, string(metrics))
	status, answer = b.Called(http.MethodPost, "", bed.InBackground(true, "nobody keeps it"))
	assert.Equal(t, http.StatusServiceUnavailable, status, string(answer))
	assert.Contains(t, string(answer), "responses_unavailable")
	_, output, err := b.Run(t.Context(), "codex-proxy", "usage")
	require.Error(t, err)
	assert.Contains(t, output, "nothing could be written to it yet: is the disk full?")
	assert.Contains(t, bed.DoctorFinds(b, "databases", "its file system is full"), "df /var/lib/codex-proxy")

	emptyDisk(b)
	again := func() bool { return strings.Contains(b.UnitJournal(bed.ProxyUnit), "responses are kept again") }
	await.True(t, again, bed.Bound, "never opened") // the pause between two tries is part of the wait
	_, err = client.Responses.Get(t.Context(), ask().ID, responses.ResponseGetParams{})
	require.NoError(t, err)
	written := func() bool {
		return strings.Contains(b.MustRun(t, "sh", "-c", "codex-proxy usage 2>&1 || true"), bed.Model)
	}
	await.True(t, written, bed.Bound, "usage is never written")
	log := b.UnitJournal(bed.ProxyUnit)
	assert.Equal(t, 1, strings.Count(log, "no response is kept for now"), log)
	assert.Equal(t, 1, strings.Count(log, "usage is not written for now"), log)
	assert.NotContains(t, log, "a response is not stored")
	assert.NotContains(t, log, "cannot write the usage database")
}

// smallDisk gives the service a small file system for its state.
func smallDisk(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", `mkdir -p /var/lib/codex-proxy; mount -t tmpfs -o size=8m none /var/lib/codex-proxy
		chown codex-proxy:codex-proxy /var/lib/codex-proxy; chmod 0700 /var/lib/codex-proxy`)
}

// fillDisk leaves no room there.
func fillDisk(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-c", "cat /dev/zero >/var/lib/codex-proxy/filler 2>/dev/null || true")
}

// emptyDisk gives the room back.
func emptyDisk(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "rm", "/var/lib/codex-proxy/filler")
}

// A response in the background whose events no disk takes any more fails with the reason, also for clients that come
// meanwhile, and for the next process.
func TestBackgroundOnAFullDisk(t *testing.T) { bed.EitherSuite(t, testBackgroundOnAFullDisk) }

func testBackgroundOnAFullDisk(t *testing.T, suite string) {
	const reason = "the disk of the service is full"
	b := bed.New(t, suite, bed.RealWorker, "")
	smallDisk(b)
	b.Start()
	first := stream(b, "[[text one ]][[gate full]][[huge 100000]][[text two]]", "one ")
	fillDisk(b)
	b.Models.Release("full")
	got := first.whole(t)
	assertResponseFailed(b, first.id, got, reason)
	emptyDisk(b)
	assertResponseFailed(b, first.id, got, reason)
	require.NoError(t, b.Models.Script("text fine"))
	assert.Equal(t, "response.completed", bed.AssertWhole(t, stream(b, "next", "fine").whole(t)).Kind)
	b.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	assertResponseFailed(b, first.id, got, reason)
}
