package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/proxy/stored"
)

const (
	// storeBound is the longest that a start waits for the file of responses.
	storeBound = 5 * time.Second
	// maxResponses bounds how many there are, whatever their size.
	maxResponses = 100_000
)

// openResponses opens the responses in the unit's state directory
// (StateDirectory=, systemd.exec(5)); where there is none, none are kept. A file
// that cannot be used keeps nobody from being served.
func openResponses(cfg *config.Config, logger *slog.Logger) *stored.Store {
	dir := os.Getenv("STATE_DIRECTORY")
	if dir == "" || cfg.ResponseRetention == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeBound)
	defer cancel()
	limits := stored.Limits{Retention: cfg.ResponseRetention, Bytes: cfg.ResponseStorage, Count: maxResponses}
	store, err := stored.Open(ctx, filepath.Join(dir, stored.FileName), limits, logger)
	if err != nil {
		logger.Error("no response is kept: a client cannot come back to one, or continue it", "error", err)
		return nil
	}
	return store
}
