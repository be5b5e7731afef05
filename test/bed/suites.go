package bed

import (
	"hash/fnv"
	"testing"

	"codex-proxy/test/nightly"
)

// The newest systemd of the tests, 257 of Debian 13, and the oldest supported one, 252
// of Debian 12.
const (
	// Newest is the Debian with the newest systemd.
	Newest = "trixie"
	// Oldest is the Debian with the oldest one.
	Oldest = "bookworm"
)

// BothSuites runs a test on both, at the same time, and beside other tests.
func BothSuites(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	t.Parallel()
	for _, suite := range []string{Newest, Oldest} {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			test(t, suite)
		})
	}
}

// EitherSuite runs a test of what no version of systemd changes on one of the two, always the same, so that the names of
// the tests share them out; `make nightly` runs it on both.
func EitherSuite(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	if nightly.Is() {
		BothSuites(t, test)
		return
	}
	t.Parallel()
	suite := suiteOf(t.Name())
	t.Run(suite, func(t *testing.T) { test(t, suite) })
}

func suiteOf(test string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(test))
	return []string{Newest, Oldest}[h.Sum32()%2]
}

// Figures is for a test that logs times and has no verdict: at night it runs on both, one after the other.
func Figures(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	if !nightly.Is() {
		t.Log("it measures, at night and in make bench-hands")
		return
	}
	BothSuitesInTurn(t, test)
}

// BothSuitesInTurn runs a test on one after the other.
func BothSuitesInTurn(t *testing.T, test func(t *testing.T, suite string)) {
	t.Helper()
	for _, suite := range []string{Newest, Oldest} {
		t.Run(suite, func(t *testing.T) { test(t, suite) })
	}
}

// Alone is for a test that measures what a busy machine would change: `make test` finds its call, and runs the test
// before all others. After a Setenv a test cannot become parallel.
func Alone(t *testing.T) {
	t.Helper()
	t.Setenv("CODEX_PROXY_TEST_ALONE", "1")
}
