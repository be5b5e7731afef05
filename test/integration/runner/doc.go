// Package runner tests codex-runner: its sessions, environments and repositories.
package runner
