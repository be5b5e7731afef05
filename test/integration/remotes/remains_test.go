package remotes

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
	"codex-proxy/test/bed"
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

func findRemains(b *bed.AccountsBed) remains {
	b.T.Helper()
	b.HTTP.CloseIdleConnections()
	var r remains
	processes, err := b.Processes("")
	require.NoError(b.T, err)
	for _, p := range processes {
		if strings.Contains(p.Command, "codex") && !ofLogin(p.Command) {
			r.processes = append(r.processes, p.Command)
		}
	}
	slices.Sort(r.processes)
	proxy := b.OnlyProcess(bed.ProxyUnit).Host
	tasks, err := os.ReadDir(filepath.Join("/proc", fmt.Sprint(proxy), "task"))
	require.NoError(b.T, err)
	r.files, r.threads, r.resident = openFiles(b.Bed, proxy), len(tasks), bed.ProxyMemory(b.Bed, proxy, "RssAnon")
	return r
}

// ofLogin reports whether a command is of codex-login@.service, which runs for a question and ends some seconds later.
func ofLogin(command string) bool {
	return strings.Contains(command, "account-login") || strings.Contains(command, "/codex-login-run/")
}

// openFiles are the open files of a process. SQLite keeps that of a closed connection for the next one, so that a file
// of the service's state counts once.
func openFiles(b *bed.Bed, pid int) (names []string) {
	b.T.Helper()
	dir := filepath.Join("/proc", fmt.Sprint(pid), "fd")
	entries, err := os.ReadDir(dir)
	require.NoError(b.T, err)
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
func settle(b *bed.Bed) {
	b.T.Helper()
	b.HTTP.CloseIdleConnections()
	b.Until("ready and idle", func(status int, r bed.Report) bool {
		busy := slices.ContainsFunc(r.Workers, func(w probes.Worker) bool { return w.Inflight > 0 })
		return bed.Ready(status, r) && !busy && r.Queue.Depth == 0
	})
	bed.AwaitSole(b)
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, func([]modelserver.Request) bool { return b.Models.OpenStreams() == 0 })
	assert.NoError(b.T, err, "turns go on that nobody waits for")
}

// assertNothingLeft compares with before. Connections take a moment to close; the Go
// runtime keeps threads and memory that it once needed.
func assertNothingLeft(b *bed.AccountsBed, before remains) {
	b.T.Helper()
	var after remains
	deadline := time.Now().Add(bed.Bound)
	for after = findRemains(b); len(after.files) > len(before.files) && time.Now().Before(deadline); after = findRemains(b) {
		bed.Pause(b.T.Context(), 50*time.Millisecond)
	}
	b.T.Logf("before: %s", before)
	b.T.Logf("after:  %s", after)
	assert.Equal(b.T, before.processes, after.processes)
	assert.LessOrEqual(b.T, len(after.files), len(before.files), "before: %q\nafter: %q", before.files, after.files)
	assert.LessOrEqual(b.T, after.threads, before.threads+8)
	assert.LessOrEqual(b.T, after.resident, before.resident+16<<10)
	for _, unit := range append(servingUnits(b), bed.ProxyUnit) {
		assert.Equal(b.T, "active", b.Properties(unit, "ActiveState")["ActiveState"], unit)
	}
}

// servingUnits are the units of the bed's workers that run.
func servingUnits(b *bed.AccountsBed) []string {
	list := make([]string, 0, len(b.Workers)+1)
	for _, name := range b.Serving() {
		list = append(list, "codex-worker@"+name+".service")
	}
	return list
}
