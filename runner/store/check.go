package store

import (
	"context"

	"codex-proxy/internal/sqlite"
)

// Check returns why Open could not use the file at path, or nil. It writes nothing.
func Check(ctx context.Context, path string) error { return sqlite.Check(ctx, path, len(steps)) }
