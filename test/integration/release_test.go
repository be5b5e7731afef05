package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/probes"
)

// A server of the last release is upgraded, reinstalled, downgraded and upgraded
// over a broken configuration. It keeps its logins, keys, databases, drains and
// streams.
func TestRelease(t *testing.T) {
	t.Parallel() // the test mostly waits
	for _, tc := range []struct {
		name, suite, pattern string
		packager             packager
	}{
		{"deb on systemd 257", "trixie", "*.deb", aptGet()}, {"deb on systemd 252", "bookworm", "*.deb", aptGet()},
		{"rpm on systemd 257", "trixie", "*.rpm", rpmCommand()},
		{"rpm on systemd 252", "bookworm", "*.rpm", rpmCommand()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fromRelease(t, tc.suite, tc.pattern, tc.packager)
		})
	}
}

func fromRelease(t *testing.T, suite, pattern string, p packager) {
	found, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, "CODEX_PROXY_TEST_RELEASED has no package of the release; `make test` makes it")
	released := found[0]
	s := furnish(emptyBed(t, suite), p, released)
	s.assertKept("as it was made")
	for _, step := range []struct{ name, file string }{
		{"upgrade", p.now}, {"reinstall", p.now}, {"downgrade", released},
	} {
		s.change(step.name, func() { p.install(s.bed, step.file) })
		s.assertServes(step.file)
	}
	s.mendAfter(p, released)
	s.stopFirst(p, released)
	s.stayClosed(p, released)
}

// furnished is a server with the data of an operator and of clients.
type furnished struct {
	*bed
	response string // the JSON of a stored response
	id       string
	asked    int64 // requests with the key
}

// furnish installs the release and makes two workers, one of them drained, a login, a
// second key, some usage and a stored response.
func furnish(b *bed, p packager, released string) *furnished {
	t := b.t
	p.install(b, released)
	b.openAI()
	b.MustRun(t, "ln", "-s", codexDir+"/bin/codex", "/usr/local/bin/codex")
	require.NoError(t, b.WriteFile(workerFile, []byte(realWorker), 0o644))
	b.MustRun(t, "codex-proxy", "accounts", "add", "second")
	b.logIn("second", "sk-second-SECRET")
	b.addKey("other", "--requests-per-minute=1000")
	b.key = trim(b.MustRun(t, "cat", firstKey))
	s := &furnished{bed: b}
	b.MustRun(t, "systemctl", "start", "codex-proxy")
	b.until("two ready", func(_ int, r report) bool {
		return len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready
	})
	require.NoError(t, b.models.Script("text first answer", "usage 21 8 13 5"))
	s.response = s.ask(http.MethodPost, "/v1/responses", `{"model":"`+model+`","input":"first question"}`)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(s.response), &made))
	s.id = made.ID
	b.MustRun(t, "codex-proxy", "drain", "second")
	return s
}

// ask sends a request with the key and returns the answer, which must be a success.
func (s *furnished) ask(method, path, body string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, base+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // a kept connection belongs to the earlier process
	res, err := s.http.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, res.StatusCode, string(answer))
	if method == http.MethodPost {
		s.asked++
	}
	return string(answer)
}

// change changes the package while a stream is open, and then restarts both workers.
func (s *furnished) change(name string, do func()) {
	s.t.Helper()
	before, codex := s.mainPID(), s.codex()
	stream := s.hold(name)
	do()
	assert.NotEqual(s.t, before, s.mainPID(), "%s: the process before still serves", name)
	assert.Equal(s.t, codex, s.codex(), "%s: the worker must not notice", name)
	stream.finish(s.bed)
	s.asked++
	s.awaitSole()
	s.assertSmooth()
	s.assertKept(name)
	s.MustRun(s.t, "systemctl", "restart", workerUnit, "codex-worker@second.service") // with the current unit file
	s.until("ready again", func(_ int, r report) bool {
		return r.Workers[0].Ready && r.Workers[1].Handshake != nil && r.Workers[1].ActiveState == "active"
	})
	s.assertKept(name + " and a restart of the workers")
}

// assertKept looks for all earlier data.
func (s *furnished) assertKept(after string) {
	s.t.Helper()
	s.http.CloseIdleConnections()
	s.assertStored(after)
	_, r := s.readyz()
	assert.Equal(s.t, probes.Draining, reasonOf(r, "second"), "after %s: the drain", after)
}

func (s *furnished) assertStored(after string) {
	s.t.Helper()
	assert.Equal(s.t, http.StatusUnauthorized, s.listModels("none"), after)
	second := s.accounts().Accounts[1]
	assert.Equal(s.t, []string{"second", "active", "api_key"}, []string{second.Name, second.ActiveState, second.Login}, after)
	keys := s.keys("list")
	assert.Contains(s.t, keys, "\nfirst ", after)
	assert.Contains(s.t, keys, "\nother ", after)
	assert.JSONEq(s.t, s.response, s.ask(http.MethodGet, "/v1/responses/"+s.id, ""), after)
	require.NoError(s.t, s.models.Script("text next answer", "usage 21 8 13 5"))
	s.ask(http.MethodPost, "/v1/responses", `{"model":"`+model+`","input":"next question","previous_response_id":"`+
		s.id+`"}`)
	assertGiven(s.t, lastTurn(s.models), "first question", "first answer", "next question")
	s.untilUsed("first", s.asked)
}

// assertServes reads the version of a package from its name, and that of the process
// that serves.
func (s *furnished) assertServes(file string) {
	s.t.Helper()
	want := regexp.MustCompile(`[0-9]+(\.[0-9]+)+`).FindString(filepath.Base(file))
	assert.Contains(s.t, s.ask(http.MethodGet, "/metrics", ""), `codex_proxy_build_info{version="`+want+`"} 1`)
}

// mendAfter upgrades over a broken configuration: the old program goes on until the
// configuration is mended.
func (s *furnished) mendAfter(p packager, released string) {
	s.t.Helper()
	before := s.mainPID()
	stream := s.hold("broken")
	s.appendTo(configFile, "keepaliv = \"1s\"\n")
	output := p.install(s.bed, p.now)
	assert.Contains(s.t, output, "the old program goes on with the old configuration, for what systemctl status codex-proxy says; mend that, then: systemctl reload codex-proxy")
	assert.Contains(s.t, s.show(proxyUnit, "StatusText")["StatusText"],
		`unknown key "keepaliv" (did you mean "keepalive"?)`)
	assert.Equal(s.t, before, s.mainPID())
	s.assertServes(released)
	s.ask(http.MethodGet, "/v1/responses/"+s.id, "")
	s.change("mend", func() {
		stream.finish(s.bed)
		s.asked++
		s.MustRun(s.t, "sed", "-i", "/^keepaliv /d", configFile)
		s.MustRun(s.t, "systemctl", "reload", proxyUnit)
	})
	s.assertServes(p.now)
}

// stopFirst downgrades and upgrades while nothing runs, with a broken configuration.
func (s *furnished) stopFirst(p packager, released string) {
	s.t.Helper()
	s.MustRun(s.t, "systemctl", "stop", "codex.target")
	assert.Contains(s.t, p.install(s.bed, released), "systemctl start codex-proxy\n")
	s.appendTo(configFile, "keepaliv = \"1s\"\n")
	assert.Contains(s.t, p.install(s.bed, p.now), "systemctl start codex-proxy\n")
	_, _, err := s.Run(s.t.Context(), "systemctl", "start", "codex-proxy")
	require.Error(s.t, err)
	assert.Contains(s.t, s.journal(proxyUnit), `did you mean \"keepalive\"?`)
	s.MustRun(s.t, "sed", "-i", "/^keepaliv /d", configFile)
	s.MustRun(s.t, "systemctl", "start", "codex-proxy")
	s.until("two ready", func(_ int, r report) bool {
		return len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready
	})
	s.assertStored("an upgrade while the service did not run")
	s.assertServes(p.now)
}

// stayClosed downgrades a server whose last key was removed.
func (s *furnished) stayClosed(p packager, released string) {
	s.t.Helper()
	s.keys("revoke", "first")
	s.keys("revoke", "other")
	assert.Equal(s.t, http.StatusUnauthorized, s.listModels(""))
	p.install(s.bed, released)
	assert.Equal(s.t, http.StatusUnauthorized, s.listModels(""), "a downgrade opens nothing")
	s.MustRun(s.t, "systemctl", "restart", proxyUnit)
	assert.Equal(s.t, http.StatusUnauthorized, s.listModels(""), "nor does a start of that")
}
