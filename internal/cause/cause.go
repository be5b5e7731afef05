// Package cause finds out why a call under a context failed.
package cause

import "context"

// Of returns err, or the cause for which ctx ended if it has ended: an error after
// that only follows from the end. It returns nil if err is nil.
func Of(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
