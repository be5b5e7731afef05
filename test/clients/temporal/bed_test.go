// Package clients runs workflows with the Go SDK of Temporal against a server that is
// killed in their middle. It is a module of its own, so that the program does not depend
// on the SDK. test/integration builds it and runs it inside a machine.
package clients

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

// bound is the longest that a test may take.
const bound = time.Minute

func TestMain(m *testing.M) {
	if address() == "" || killer() == "" {
		fmt.Println("TEMPORAL_ADDRESS and BED_KILL are not set; test/integration sets them")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func address() string { return os.Getenv("TEMPORAL_ADDRESS") }

// killer is the URL whose POST kills the server with SIGKILL.
func killer() string { return os.Getenv("BED_KILL") }

func dial(t *testing.T) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// kill kills the server; then nothing listens on its port for a moment.
func kill(ctx context.Context, t *testing.T) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, killer(), nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}
