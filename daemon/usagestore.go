package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"codex-proxy/daemon/config"
	"codex-proxy/proxy/usage"
)

// usageBound is the longest that a start waits for the usage database.
const usageBound = 5 * time.Second

// newUsage opens the usage database in the unit's state directory (StateDirectory=,
// systemd.exec(5)); without one, usage is counted in memory alone. Requests are served also
// without a usable database.
func newUsage(cfg *config.Config, registry prometheus.Registerer, logger *slog.Logger) *usage.Store {
	path := ""
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		path = filepath.Join(dir, usage.FileName)
	}
	store := usage.New(usage.Settings{Path: path, Retention: cfg.UsageRetention, Registry: registry, Logger: logger})
	ctx, cancel := context.WithTimeout(context.Background(), usageBound)
	defer cancel()
	if err := store.Load(ctx); err != nil {
		logger.Error("usage is not written for now, and what keys have used today is forgotten", "error", err)
	}
	return store
}
