package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
	"codex-proxy/test/modelserver"
)

// remains are the resources of the machine that the service uses.
type remains struct {
	processes []string // the commands of all processes of the service
	files     []string // open in the proxy, each of its databases once
	threads   int
	resident  int // KiB
}

func (r remains) String() string {
	return fmt.Sprintf("%d processes; of the proxy %d files, %d threads, %d KiB", len(r.processes), len(r.files),
		r.threads, r.resident)
}

func (b *bed) remains() remains {
	b.t.Helper()
	b.http.CloseIdleConnections()
	var r remains
	processes, err := b.Processes("")
	require.NoError(b.t, err)
	for _, p := range processes {
		if strings.Contains(p.Command, "codex") {
			r.processes = append(r.processes, p.Command)
		}
	}
	slices.Sort(r.processes)
	proxy := b.onlyProcess(proxyUnit).Host
	tasks, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(proxy), "task"))
	require.NoError(b.t, err)
	r.files, r.threads, r.resident = b.openFiles(proxy), len(tasks), b.rss(proxy)
	return r
}

// openFiles are the open files of a process. SQLite keeps that of a closed connection for the next one, so that a file
// of the service's state counts once.
func (b *bed) openFiles(pid int) (names []string) {
	b.t.Helper()
	dir := filepath.Join("/proc", fmt.Sprint(pid), "fd")
	entries, err := os.ReadDir(dir)
	require.NoError(b.t, err)
	for _, e := range entries {
		name, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || strings.HasPrefix(name, "/var/lib/codex-proxy/") && slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// settle waits until the service is ready and idle: no process of before a reload, no
// turn, nothing in the queue and nothing at the model endpoint.
func (b *bed) settle() {
	b.t.Helper()
	b.http.CloseIdleConnections()
	b.until("ready and idle", func(status int, r report) bool {
		busy := slices.ContainsFunc(r.Workers, func(w probes.Worker) bool { return w.Inflight > 0 })
		return ready(status, r) && !busy && r.Queue.Depth == 0
	})
	b.awaitSole()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	_, err := b.models.Wait(ctx, func([]modelserver.Request) bool { return b.models.OpenStreams() == 0 })
	assert.NoError(b.t, err, "turns go on that nobody waits for")
}

// assertNothingLeft compares with before. Connections take a moment to close; the Go
// runtime keeps threads and memory that it once needed.
func (b *bed) assertNothingLeft(before remains) {
	b.t.Helper()
	var after remains
	deadline := time.Now().Add(bound)
	for after = b.remains(); len(after.files) > len(before.files) && time.Now().Before(deadline); after = b.remains() {
		pause(b.t.Context(), 50*time.Millisecond)
	}
	b.t.Logf("before: %s", before)
	b.t.Logf("after:  %s", after)
	assert.Equal(b.t, before.processes, after.processes)
	assert.LessOrEqual(b.t, len(after.files), len(before.files), "before: %q\nafter: %q", before.files, after.files)
	assert.LessOrEqual(b.t, after.threads, before.threads+8)
	assert.LessOrEqual(b.t, after.resident, before.resident+16<<10)
	for _, unit := range append(b.workerUnits(), proxyUnit) {
		assert.Equal(b.t, "active", b.show(unit, "ActiveState")["ActiveState"], unit)
	}
}

// workerUnits are the units of the bed's workers.
func (b *bed) workerUnits() []string {
	list := make([]string, 0, len(b.workers)+1)
	for _, name := range b.workers {
		list = append(list, "codex-worker@"+name+".service")
	}
	return list
}
