package integration

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/manual"
)

// likeAContainer runs the start file as the first process of namespaces of its own,
// without systemd, bus and journal, as an unprivileged user.
const likeAContainer = `for d in /run /tmp /var/lib/codex-worker /var/lib/codex-proxy; do mkdir -p $d; mount -t tmpfs -o mode=1777 none $d; done
mkdir -m 0700 /var/lib/codex-worker/default
chown 1000:1000 /var/lib/codex-worker/default
exec env -i PATH=/usr/bin:/bin setpriv --reuid=1000 --regid=1000 --clear-groups --no-new-privs /usr/local/bin/start`

// The start of docs/containers.md: it serves, recovers from the death of its worker,
// and finishes the requests in flight when it is stopped.
func TestContainer(t *testing.T) {
	t.Parallel()
	doc := manual.Open(t, "docs/containers.md")
	b := newBed(t, "trixie", realWorker, doc.File(configFile))
	require.NoError(t, b.WriteFile("/usr/local/bin/start", []byte(doc.File("/usr/local/bin/start")), 0o755))
	key, _, err := b.Run(t.Context(), "codex-proxy", "keys", "add", "someone", "--file", keyFile)
	require.NoError(t, err)
	b.key = strings.TrimSpace(key)
	b.MustRun(t, "chown", "1000:1000", keyFile)

	ended := b.contained()
	b.awaitReadyz(ended)
	status, r := b.readyz()
	require.Equal(t, http.StatusOK, status, "%+v", r)
	res, text := b.through(t, http.MethodPost, "/v1/chat/completions", chatBody("[[text from inside]]", false))
	assert.Equal(t, http.StatusOK, res.StatusCode, text)
	assert.Contains(t, text, "from inside")

	t.Run("without a key", func(t *testing.T) {
		status, _, text := b.chat(false, "hi")
		assert.Equal(t, http.StatusUnauthorized, status, text)
	})
	t.Run("control", func(t *testing.T) {
		inside := []string{"nsenter", "--mount", "--pid", "--target", b.served(), "setpriv", "--reuid=1000",
			"--regid=1000", "--clear-groups"}
		for _, args := range [][]string{{"drain"}, {"undrain"}, {"status"}} {
			b.MustRun(t, append(append(inside, "codex-proxy"), args...)...)
		}
	})
	t.Run("the worker dies", func(t *testing.T) {
		then := time.Now()
		b.MustRun(t, "kill", "-KILL", b.only("/run/codex-worker/default/codex app-server"))
		b.until("not ready", func(_ int, r report) bool {
			return slices.ContainsFunc(r.Workers[0].Transitions, func(tr probes.Transition) bool {
				return tr.At.After(then) && tr.Reason == probes.HandshakeLost
			})
		})
		live, _ := b.get("/livez")
		assert.Equal(t, http.StatusOK, live)
		b.until("ready", ready)
	})
	t.Run("SIGTERM", func(t *testing.T) {
		held := b.hold("stop")
		b.MustRun(t, "kill", "-TERM", b.served())
		b.until("draining", func(status int, r report) bool {
			return status == http.StatusServiceUnavailable && r.Health.Readiness.Reason == probes.Draining
		})
		held.finish(b)
		require.NoError(t, <-ended)
	})
}

// contained starts likeAContainer and delivers its end.
func (b *bed) contained() <-chan error {
	ctx, cancel := context.WithTimeout(context.Background(), 4*bound)
	b.t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() {
		stdout, stderr, err := b.Run(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
			"sh", "-ec", likeAContainer)
		if err != nil {
			err = errors.Join(err, errors.New(stdout+stderr))
		}
		ended <- err
	}()
	return ended
}

// awaitReadyz waits until the service answers and is ready, or ends.
func (b *bed) awaitReadyz(ended <-chan error) {
	b.t.Helper()
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); pause(b.t.Context(), 20*time.Millisecond) {
		select {
		case err := <-ended:
			require.FailNow(b.t, "it has ended", "%v", err)
		default:
		}
		res, err := b.http.Get(base + "/readyz")
		if err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK {
			return
		}
	}
	require.FailNow(b.t, "it is never ready")
}

// served is the process of codex-proxy, as the machine counts.
func (b *bed) served() string { return b.only("codex-proxy serve") }

// only is the one process whose command line begins so.
func (b *bed) only(command string) string {
	b.t.Helper()
	pids := strings.Fields(b.MustRun(b.t, "pgrep", "-f", "^"+command))
	require.Len(b.t, pids, 1, command)
	return pids[0]
}
