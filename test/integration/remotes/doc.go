// Package remotes tests the sessions of codex that people attach to, and the chaos with all systems at once.
package remotes
