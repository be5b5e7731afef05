package integration

import "testing"

// bothSuites runs a test on the newest systemd that is supported, 257 of Debian 13,
// and on the oldest, 252 of Debian 12.
func bothSuites(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	for _, suite := range []string{"trixie", "bookworm"} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			test(t, suite)
		})
	}
}
