package api

import "context"

// WithUID is WithPeer for a connection of that user.
func WithUID(ctx context.Context, uid uint32) context.Context {
	return context.WithValue(ctx, peerKey{}, uid)
}
