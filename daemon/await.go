package daemon

import "context"

// await waits until c is closed, and reports false if ctx ends first.
func await(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}
