// Package limits holds requests to their bounds: the limits of each API key, and the bytes
// that all requests hold in memory at the same time.
package limits
