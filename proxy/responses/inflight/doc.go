// Package inflight has the responses in flight of this process, which clients can cancel.
package inflight
