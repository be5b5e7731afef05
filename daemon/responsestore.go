package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/config"
	"codex-proxy/proxy/stored"
)

const (
	// storeBound is the longest that a start waits for the file of responses.
	storeBound = 5 * time.Second
	// maxResponses bounds how many there are, whatever their size.
	maxResponses = 100_000
)

// openResponses opens the responses in the unit's state directory (StateDirectory=,
// systemd.exec(5)); without one it returns nil. The store tries a file that it cannot use
// again; requests are served all the same.
func openResponses(cfg *config.Config, registry prometheus.Registerer, logger *slog.Logger) *stored.Store {
	dir := os.Getenv("STATE_DIRECTORY")
	if dir == "" || cfg.ResponseRetention == 0 {
		return nil
	}
	store := stored.New(stored.Settings{
		Path: filepath.Join(dir, stored.FileName), Registry: registry, Logger: logger,
		Limits: stored.Limits{Retention: cfg.ResponseRetention, Bytes: cfg.ResponseStorage, Count: maxResponses},
	})
	ctx, cancel := context.WithTimeout(context.Background(), storeBound)
	defer cancel()
	if err := store.Open(ctx); err != nil {
		logger.Error("no response is kept for now: a client cannot come back to one, or continue it", "error", err)
	}
	return store
}
