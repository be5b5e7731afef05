package daemon

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
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
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
	b := bed.New(t, "trixie", bed.RealWorker, doc.File(bed.ConfigFile))
	require.NoError(t, b.WriteFile("/usr/local/bin/start", []byte(doc.File("/usr/local/bin/start")), 0o755))
	key, _, err := b.Run(t.Context(), "codex-proxy", "keys", "add", "someone", "--file", bed.KeyFile)
	require.NoError(t, err)
	b.Key = strings.TrimSpace(key)
	b.MustRun(t, "chown", "1000:1000", bed.KeyFile)

	ended := contained(b)
	awaitReadyz(b, ended)
	status, r := b.Readyz()
	require.Equal(t, http.StatusOK, status, "%+v", r)
	res, text := b.AskThrough(t, http.MethodPost, "/v1/chat/completions", bed.ChatBody("[[text from inside]]", false))
	assert.Equal(t, http.StatusOK, res.StatusCode, text)
	assert.Contains(t, text, "from inside")

	t.Run("without a key", func(t *testing.T) {
		status, _, text := b.Chat(false, "hi")
		assert.Equal(t, http.StatusUnauthorized, status, text)
	})
	t.Run("control", func(t *testing.T) {
		inside := []string{"nsenter", "--mount", "--pid", "--target", served(b), "setpriv", "--reuid=1000",
			"--regid=1000", "--clear-groups"}
		for _, args := range [][]string{{"drain"}, {"undrain"}, {"status"}} {
			b.MustRun(t, append(append(inside, "codex-proxy"), args...)...)
		}
	})
	t.Run("the worker dies", func(t *testing.T) {
		then := time.Now()
		b.MustRun(t, "kill", "-KILL", only(b, "/run/codex-worker/default/codex app-server"))
		b.Until("not ready", func(_ int, r bed.Report) bool {
			return slices.ContainsFunc(r.Workers[0].Transitions, func(tr probes.Transition) bool {
				return tr.At.After(then) && tr.Reason == probes.HandshakeLost
			})
		})
		live, _ := b.Get("/livez")
		assert.Equal(t, http.StatusOK, live)
		b.Until("ready", bed.Ready)
	})
	t.Run("SIGTERM", func(t *testing.T) {
		held := bed.Hold(b, "stop")
		b.MustRun(t, "kill", "-TERM", served(b))
		b.Until("draining", func(status int, r bed.Report) bool {
			return status == http.StatusServiceUnavailable && r.Health.Readiness.Reason == probes.Draining
		})
		held.Finish(b)
		require.NoError(t, <-ended)
	})
}

// contained starts likeAContainer and delivers its end.
func contained(b *bed.Bed) <-chan error {
	ctx, cancel := context.WithTimeout(context.Background(), 4*bed.Bound)
	b.T.Cleanup(cancel)
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
func awaitReadyz(b *bed.Bed, ended <-chan error) {
	b.T.Helper()
	for deadline, pace := time.Now().Add(bed.Bound), (await.Pace{}); time.Now().Before(deadline); pace.Pause(b.T.Context()) {
		select {
		case err := <-ended:
			require.FailNow(b.T, "it has ended", "%v", err)
		default:
		}
		res, err := b.HTTP.Get(bed.Base + "/readyz")
		if err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK {
			return
		}
	}
	require.FailNow(b.T, "it is never ready")
}

// served is the process of codex-proxy, as the machine counts.
func served(b *bed.Bed) string { return only(b, "codex-proxy serve") }

// only is the one process whose command line begins so.
func only(b *bed.Bed, command string) string {
	b.T.Helper()
	pids := strings.Fields(b.MustRun(b.T, "pgrep", "-f", "^"+command))
	require.Len(b.T, pids, 1, command)
	return pids[0]
}
