// Package dependencies tests the servers beside codex-proxy that it runs as units.
package dependencies
