package responses_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/internal/postgres"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/stored/shared"
	"codex-proxy/test/postgrestest"
)

// onHost keeps responses on a host that shares them.
func onHost(t *testing.T, server *postgrestest.Server, name string) func(*apitest.Options) {
	t.Helper()
	file := apitest.NewStore(filepath.Join(t.TempDir(), stored.FileName), 1<<24)
	require.NoError(t, file.Open(t.Context()))
	s := shared.New(shared.Settings{
		File: file, Server: server.Server, Host: name, Bound: time.Minute, Steady: func() bool { return true },
		Foreign: func() bool { return false }, Spread: func() time.Duration { return 0 },
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
		assert.NoError(t, s.Close())
	})
	return func(o *apitest.Options) { o.Responses = s }
}

// A background response runs on one host. On another one it can be polled, cancelled and deleted, and its stream is
// whole at its end, byte for byte.
func TestBackgroundOfAnotherHost(t *testing.T) {
	server := postgrestest.Start(t)
	pool := postgres.NewPool(server.Server)
	defer pool.Close()
	execute := func(statements string) {
		require.NoError(t, pool.Do(t.Context(), time.Minute, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol)
			return err
		}))
	}
	execute(`CREATE SCHEMA codex; CREATE TABLE codex.hosts (name text PRIMARY KEY, until timestamptz NOT NULL);
		INSERT INTO codex.hosts VALUES ('one', 'infinity'), ('two', 'infinity');` + shared.Schema)
	gate := make(chan struct{})
	worker := apitest.Gated(gate, "first", "last")
	one := apitest.NewRig(t, &appservertest.Server{Handler: worker}, onHost(t, server, "one"))
	two := apitest.NewRig(t, &appservertest.Server{Handler: worker}, onHost(t, server, "two"))

	id, before, body := streamOf(t, one.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	for !strings.Contains(before, "first") {
		before += event(t, body)
	}
	two.Status(t, id, "in_progress")
	whole, rest := two.Resumed(t, id, -1), two.Resumed(t, id, strings.Count(before, "\n\n")-1)
	cancelled := one.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	deleted := one.Whole(t, apitest.Asked(inBackground, `"q"`)).ID
	resp := two.Do(t, http.MethodPost, "/v1/responses/"+cancelled+"/cancel", "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, "cancelled", apitest.Read[apitest.Seen](t, apitest.Text(t, resp)).Status)
	assert.Equal(t, http.StatusOK, two.Do(t, http.MethodDelete, "/v1/responses/"+deleted, "").StatusCode)
	assert.Equal(t, http.StatusNotFound, two.Do(t, http.MethodGet, "/v1/responses/"+deleted, "").StatusCode)
	close(gate)
	live := all(t, body)
	assert.Contains(t, live, "event: response.completed\n")
	assert.Equal(t, before+live, all(t, whole.Body))
	assert.Equal(t, live, all(t, rest.Body))
	assert.Equal(t, before+live, all(t, two.Resumed(t, id, -1).Body))
	assert.Equal(t, before+live, all(t, one.Resumed(t, id, -1).Body))
	next := two.Whole(t, apitest.Asked(`"previous_response_id":"`+id+`",`, `"and then"`))
	assert.Equal(t, "completed", next.Status)

	// The host is lost: its response fails on the other one, behind all events that a client has.
	gate = make(chan struct{}) // of nobody: the worker of a lost host
	lost := apitest.NewRig(t, &appservertest.Server{Handler: apitest.Gated(gate, "first")}, onHost(t, server, "lost"))
	execute(`INSERT INTO codex.hosts VALUES ('lost', 'infinity')`)
	id, before, body = streamOf(t, lost.Responding(t, apitest.Asked(inBackground+apitest.Streaming, `"q"`)))
	for !strings.Contains(before, "first") {
		before += event(t, body)
	}
	resumed := bufio.NewReader(two.Resumed(t, id, strings.Count(before, "\n\n")-1).Body)
	execute(`UPDATE codex.hosts SET until = now() - interval '1 s' WHERE name = 'lost'`)
	last := all(t, resumed)
	assert.True(t, strings.HasPrefix(last, "event: response.failed\n"), last)
	assert.Equal(t, 1, strings.Count(last, "event: "), last)
	assert.Contains(t, last, fmt.Sprintf(`"sequence_number":%d`, 1<<30))
	assert.Equal(t, "failed", two.Status(t, id, "failed").Status)
	close(gate)
	assert.NotContains(t, all(t, body), "response.completed", "it was not lost, and has that end, too")
	lost.Status(t, id, "failed")
}
