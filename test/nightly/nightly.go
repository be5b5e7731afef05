// Package nightly tells tests how much to do: a change waits for `make test`, and nobody waits for `make nightly`.
package nightly

import "os"

// Env is the environment variable that makes tests do all that they can, if it is 1.
const Env = "CODEX_PROXY_TEST_NIGHTLY"

// Is reports whether this is `make nightly`.
func Is() bool { return os.Getenv(Env) == "1" }

// Or is the long form of a test in `make nightly`, and the short one otherwise. The short form is the first part of the
// long one, so that a fault that it has found stays found.
func Or(long, short int) int {
	if Is() {
		return long
	}
	return short
}
