package accounts

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// memoryTurns is how many turns run at once on each account.
const memoryTurns = 16

// The codex of ten accounts, with its broker, has no more memory than those of two accounts with a codex each, idle and
// after turns on each of them in turn.
func TestOneProcessMemory(t *testing.T) {
	if !nightly.Is() {
		t.Skip("it starts ten codex")
	}
	bed.EitherSuite(t, testOneProcessMemory)
}

func testOneProcessMemory(t *testing.T, suite string) {
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	b := bed.WithAccounts(bed.New(t, suite, bed.AccountWorker, oneCodex), apart+bed.AccountWorker, names...)
	b.Start()
	b.UntilWorkersReady()
	idle := codexMemory(b)
	work(b)
	worked := codexMemory(b)

	require.NoError(t, b.WriteFile(bed.ConfigFile, []byte(ordered), 0o644))
	for _, command := range [][]string{{"daemon-reload"}, {"restart", "codex-worker@*.service"}, {"start", "codex.target"},
		{"reload", "codex-proxy"}} {
		b.MustRun(t, append([]string{"systemctl"}, command...)...)
	}
	b.UntilWorkersReady()
	idleApart := codexMemory(b)
	work(b)
	workedApart := codexMemory(b)
	t.Logf("MiB of codex and its helpers: idle %d, and %d with a codex for each account; after turns %d and %d", idle>>10,
		idleApart>>10, worked>>10, workedApart>>10)
	assert.LessOrEqual(t, idle, 2*idleApart/len(names))
	assert.LessOrEqual(t, worked, 2*workedApart/len(names))
}

// work runs turns on each account in turn.
func work(b *bed.AccountsBed) {
	b.T.Helper()
	for _, name := range b.Workers {
		var all sync.WaitGroup
		for range memoryTurns {
			all.Go(func() {
				status, _, body := chooses(b, "", name)
				assert.Equal(b.T, http.StatusOK, status, body)
			})
		}
		all.Wait()
	}
}

// codexMemory is the resident memory of the units with a codex, in KiB, once the units of the logins have ended.
func codexMemory(b *bed.AccountsBed) (sum int) {
	b.T.Helper()
	for _, name := range b.Workers {
		b.AwaitInactive(loginUnit(name))
	}
	for _, name := range b.Workers {
		for _, unit := range []string{unitOf(name), brokerUnit(name)} {
			processes, err := b.Processes(unit)
			require.NoError(b.T, err)
			for _, p := range processes {
				resident, _ := bed.MemoryOf(b.T, p)
				sum += resident
			}
		}
	}
	return sum
}
