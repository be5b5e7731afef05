package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	r.read(strings.NewReader(`{"Action":"start","Package":"codex-proxy/a"}
{"Action":"output","Package":"codex-proxy/a","Test":"TestGood","Output":"unwanted\n"}
{"Action":"pass","Package":"codex-proxy/a","Test":"TestGood","Elapsed":0.5}
{"Action":"output","Package":"codex-proxy/a","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"codex-proxy/a","Test":"TestBad","Output":"    a_test.go:1: why\n"}
{"Action":"fail","Package":"codex-proxy/a","Test":"TestBad","Elapsed":1.25}
{"Action":"output","Package":"codex-proxy/a","Output":"FAIL\n"}
{"Action":"fail","Package":"codex-proxy/a","Elapsed":2}
{"ImportPath":"codex-proxy/b","Action":"build-output","Output":"b.go:1: does not compile\n"}
{"Action":"output","Package":"codex-proxy/c/d","Test":"TestRoot","Output":"    c_test.go:7: needs root: mkdir /x1: permission denied\n"}
{"Action":"output","Package":"codex-proxy/c/d","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"codex-proxy/c/d","Test":"TestRoot","Elapsed":0}
{"Action":"skip","Package":"codex-proxy/c/d","Elapsed":0}
no event
`))
	r.summary(90 * time.Second)
	assert.Equal(t, `FAIL a TestBad
      a_test.go:1: why
FAIL a
  FAIL
b.go:1: does not compile
no event
tests: 1 passed, of 2 packages, in 1m30s: 1 tests in 1 packages failed
the slowest: a TestBad 1.2s; a TestGood 0.5s;
left out: the packages in test/integration, which boot machines (make integration RUN='^TestDrainCommands$/trixie')
    1 without root: c/d
make check REAL=1 installs the programs that the variables name; as root, it runs the tests that need root; make test runs everything
`, out.String())
}

func TestLack(t *testing.T) {
	for reason, want := range map[string]string{
		"CODEX_PROXY_TEST_CODEX names no codex":          "CODEX_PROXY_TEST_CODEX",
		"needs root and CODEX_PROXY_TEST_CODEX":          "CODEX_PROXY_TEST_CODEX",
		"needs root: mkdir /srv/a1: permission denied":   "root",
		"no machine can run here: not root":              "root",
		"this host has no zsh: exec: file not found":     "this host has no zsh",
		"CODEX_PROXY_TEST_DEB and CODEX_PROXY_TEST_RPM ": "CODEX_PROXY_TEST_DEB",
	} {
		assert.Equal(t, want, lack(reason))
	}
}

func TestChange(t *testing.T) {
	c := newChange("abc", []string{"a/b.go", "a/c_test.go", "README.md", "x/y/z.go", "test/clients/go/m.go", "test/measure/testdata/t.go"})
	assert.Equal(t, change{"abc", []string{"a/b.go", "a/c_test.go", "x/y/z.go"}, []string{"./a", "./x/y"}}, c)
}
