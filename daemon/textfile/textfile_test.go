package textfile

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/promfile"
	"codex-proxy/probes"
)

// rig is a writer whose report the test sets.
type rig struct {
	*promfile.Writer
	path string
	now  atomic.Pointer[probes.Report]
	log  bytes.Buffer
}

func newRig(t *testing.T, path string) *rig {
	t.Helper()
	r := &rig{path: path}
	r.now.Store(&probes.Report{})
	r.Writer = newWriter(path, "1.2.3", func() probes.Report { return *r.now.Load() },
		slog.New(slog.NewTextHandler(&r.log, nil)))
	return r
}

// become changes the report and calls Changed.
func (r *rig) become(reason probes.Reason, restarts uint64) {
	ready := reason == probes.Ready
	r.now.Store(&probes.Report{
		Health:  probes.Health{Readiness: probes.Readiness{Ready: ready, Reason: reason}},
		Workers: []probes.Worker{{Name: "default", Ready: ready, Reason: reason, RestartsTotal: restarts, Inflight: 2}},
	})
	r.Changed()
}

func (r *rig) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.path)
	require.NoError(t, err)
	return string(text)
}

// running runs the writer while test runs.
func running(t *testing.T, r *rig, test func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	test()
	cancel()
	assert.NoError(t, <-ended)
}

func TestWrittenAtChangesAndOnATimer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codex-proxy.prom")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, path)
		r.become(probes.BackingOff, 1)
		running(t, r, func() {
			assert.Contains(t, r.text(t), "codex_textfile_ready 0\n")
			assert.Contains(t, r.text(t), `codex_textfile_worker_restarts_total{worker="default"} 1`)
			assert.Contains(t, r.text(t), `codex_textfile_info{version="1.2.3"} 1`)

			r.become(probes.Ready, 2)
			<-time.After(2 * promfile.Pause)
			synctest.Wait()
			assert.Contains(t, r.text(t), "codex_textfile_ready 1\n")
			assert.Contains(t, r.text(t), `codex_textfile_worker_ready{worker="default"} 1`)

			require.NoError(t, os.Remove(path))
			<-time.After(promfile.Pause) // a change of the turns in flight alone causes no write
			r.Changed()
			synctest.Wait()
			assert.NoFileExists(t, path)
			<-time.After(promfile.Every)
			synctest.Wait()
			assert.Contains(t, r.text(t), "codex_textfile_ready 1\n")
		})
		r.Remove()
		assert.NoFileExists(t, path)
		r.Remove() // a second time is no error
		assert.Empty(t, r.log.String())
	})
}

// A change of a dependency is written at once, like one of a worker.
func TestDependencies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codex-proxy.prom")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, path)
		become := func(d probes.Dependency) {
			d.Name, d.Since = "temporal", time.Unix(1700000000, 0)
			r.now.Store(&probes.Report{Dependencies: []probes.Dependency{d}})
			r.Changed()
		}
		become(probes.Dependency{Reason: probes.DependencyReady, Ready: true})
		running(t, r, func() {
			assert.Contains(t, r.text(t), `codex_textfile_dependency_ready{dependency="temporal"} 1`)
			assert.Contains(t, r.text(t), `codex_textfile_dependency_state{dependency="temporal",state="ready"} 1`)
			assert.Contains(t, r.text(t),
				`codex_textfile_dependency_state_since_timestamp_seconds{dependency="temporal"} 1.7e+09`)

			become(probes.Dependency{Reason: probes.DependencyBackingOff, RestartsTotal: 1})
			<-time.After(2 * promfile.Pause)
			synctest.Wait()
			assert.Contains(t, r.text(t), `codex_textfile_dependency_ready{dependency="temporal"} 0`)
			assert.Contains(t, r.text(t), `codex_textfile_dependency_state{dependency="temporal",state="backing_off"} 1`)
			assert.Contains(t, r.text(t), `codex_textfile_dependency_restarts_total{dependency="temporal"} 1`)
		})
	})
}

// So is one of a remote; what its manager says follows with the next write.
func TestRemotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "codex-proxy.prom")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, path)
		become := func(remote probes.Remote) {
			remote.Name = "build"
			r.now.Store(&probes.Report{Remotes: []probes.Remote{remote}})
			r.Changed()
		}
		become(probes.Remote{Reason: probes.RemoteAsleep, RestartsTotal: 2})
		running(t, r, func() {
			assert.Contains(t, r.text(t), `codex_textfile_remote_state{remote="build",state="asleep"} 1`)
			assert.Contains(t, r.text(t), `codex_textfile_remote_restarts_total{remote="build"} 2`)
			assert.NotContains(t, r.text(t), `codex_textfile_remote_turns`)

			become(probes.Remote{Reason: probes.RemoteReady, Ready: true, NotReady: 1500 * time.Millisecond,
				Use: &probes.RemoteUse{Owners: 1, Viewers: 2, Turns: 3, AloneSince: time.Unix(1700000000, 0), Continued: 4,
					GivenUp: 5, Switches: 6}})
			<-time.After(2 * promfile.Pause)
			synctest.Wait()
			for _, want := range []string{`ready{remote="build"} 1`, `not_ready_seconds_total{remote="build"} 1.5`,
				`attached{remote="build",role="owner"} 1`, `attached{remote="build",role="viewer"} 2`,
				`turns{remote="build"} 3`, `approval_waiting_since_timestamp_seconds{remote="build"} 1.7e+09`,
				`turns_continued_total{remote="build"} 4`, `turns_given_up_total{remote="build"} 5`,
				`switches_total{remote="build"} 6`} {
				assert.Contains(t, r.text(t), "codex_textfile_remote_"+want+"\n")
			}
		})
	})
}
