package dependencies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

// pgLogs holds the logs of the runs of pgbench, pgScript its transaction.
const (
	pgLogs   = "/tmp/pgbench"
	pgScript = "/tmp/transaction.sql"
)

// pgTransaction inserts its own number: that of the run of pgbench, of the client and of
// the client's transactions.
const pgTransaction = `\set n :n + 1
\set aid random(1, 100000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
INSERT INTO ledger VALUES (:run, :client_id, :n);
END;
`

// pgLoad runs pgbench, and runs it again when the end of the server has ended it.
type pgLoad struct {
	p      *postgres
	cancel context.CancelFunc
	ended  chan struct{}
	runs   int     // how often pgbench ran
	faults []error // other ends of pgbench than the loss of the server
}

// load makes the tables and runs pgbench until end.
func (p *postgres) load() *pgLoad {
	p.T.Helper()
	p.MustRun(p.T, p.client("pgbench", "--initialize", "--quiet", "--scale=1", "postgres")...)
	p.query("CREATE TABLE ledger (run int, client int, n int, PRIMARY KEY (run, client, n))")
	require.NoError(p.T, p.WriteFile(pgScript, []byte(pgTransaction), 0o644))
	p.MustRun(p.T, "install", "-d", "--owner=postgres", pgLogs)
	ctx, cancel := context.WithCancel(p.T.Context())
	l := &pgLoad{p: p, cancel: cancel, ended: make(chan struct{})}
	go l.repeat(ctx)
	p.T.Cleanup(l.end)
	return l
}

func (l *pgLoad) repeat(ctx context.Context) {
	defer close(l.ended)
	for ctx.Err() == nil {
		l.runs++
		if err := l.run(ctx); err != nil {
			l.faults = append(l.faults, err)
		}
		bed.Pause(ctx, 20*time.Millisecond) // a refused connection returns at once
	}
}

// run returns nil if pgbench has lost the server, or ctx has ended.
func (l *pgLoad) run(ctx context.Context) error {
	var output bytes.Buffer
	err := l.p.Exec(ctx, machine.Exec{Args: l.p.client("pgbench", "--no-vacuum", "--log", "--file="+pgScript,
		fmt.Sprintf("--log-prefix=%s/%d", pgLogs, l.runs), fmt.Sprintf("--define=run=%d", l.runs), "--define=n=0",
		"--client=4", "--time=3600", "postgres"), Stdout: &output, Stderr: &output})
	if status := (*exec.ExitError)(nil); ctx.Err() == nil && !errors.As(err, &status) {
		return fmt.Errorf("pgbench: %w: %s", err, output.String())
	}
	return nil
}

// end ends the load.
func (l *pgLoad) end() {
	l.cancel()
	<-l.ended
}

// reach waits until that many more transactions have been committed.
func (l *pgLoad) reach(more int) {
	l.p.T.Helper()
	deadline := time.Now().Add(2 * bed.Bound)
	for goal := -1; ; {
		n, err := l.committed()
		switch {
		case err == nil && goal < 0:
			goal = n + more
		case err == nil && n >= goal:
			return
		}
		require.True(l.p.T, time.Now().Before(deadline), "%d of %d transactions: %v", n, goal, err)
		bed.Pause(l.p.T.Context(), 20*time.Millisecond)
	}
}

func (l *pgLoad) committed() (n int, err error) {
	text, err := l.p.ask("SELECT count(*) FROM ledger")
	if err == nil {
		_, err = fmt.Sscan(text, &n)
	}
	return n, err
}

// acknowledged are the transactions whose commit the server has confirmed to pgbench. A
// line of a log begins with the client and the number of the transaction, from 1.
func (l *pgLoad) acknowledged(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for line := range strings.Lines(l.p.MustRun(t, "sh", "-c", "grep --with-filename '' "+pgLogs+"/*")) {
		if len(strings.Fields(line)) < 6 {
			continue // a pgbench that was killed has written a part of its last line
		}
		var run, pid, client, n int
		_, err := fmt.Sscanf(line, pgLogs+"/%d.%d:%d %d", &run, &pid, &client, &n)
		require.NoError(t, err, line)
		all[fmt.Sprintf("%d|%d|%d", run, client, n)] = true
	}
	return all
}

// verify asserts that the database has each acknowledged transaction, whole and once.
func (l *pgLoad) verify(t *testing.T, atLeast int) {
	t.Helper()
	found := map[string]bool{}
	for line := range strings.Lines(l.p.query("SELECT run, client, n FROM ledger")) {
		found[bed.Trim(line)] = true
	}
	acknowledged := l.acknowledged(t)
	var lost []string
	for transaction := range acknowledged {
		if !found[transaction] {
			lost = append(lost, transaction)
		}
	}
	t.Logf("pgbench ran %d times: %d transactions acknowledged, %d in the database, %d lost",
		l.runs, len(acknowledged), len(found), len(lost))
	assert.Empty(t, lost, "run|client|n")
	assert.GreaterOrEqual(t, len(acknowledged), atLeast, "the kills hit no load")
	assert.Equal(t, fmt.Sprint(len(found)), bed.Trim(l.p.query("SELECT sum(abalance) FROM pgbench_accounts")))
	assert.Empty(t, l.faults)
}
