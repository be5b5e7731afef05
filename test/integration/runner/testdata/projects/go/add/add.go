// Package add is a module of its own.
package add

// Two adds.
func Two(a, b int) int { return a + b }
