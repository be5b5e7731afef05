package daemon

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
	"codex-proxy/test/bed"
	"codex-proxy/test/nightly"
)

// A server of the last release is upgraded, reinstalled, downgraded and upgraded
// over a broken configuration. It keeps its logins, keys, databases, drains and
// streams. By day each kind of package and each systemd is there once, and the rpm has another systemd than in TestPackage.
func TestRelease(t *testing.T) {
	t.Parallel() // the test mostly waits
	for _, tc := range []struct {
		name, suite, pattern string
		packager             bed.Packager
	}{
		{"deb on systemd 257", "trixie", "*.deb", bed.AptGet()}, {"rpm on systemd 252", "bookworm", "*.rpm", bed.RpmCommand()},
		{"deb on systemd 252", "bookworm", "*.deb", bed.AptGet()}, {"rpm on systemd 257", "trixie", "*.rpm", bed.RpmCommand()},
	}[:nightly.Or(4, 2)] {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fromRelease(t, tc.suite, tc.pattern, tc.packager)
		})
	}
}

func fromRelease(t *testing.T, suite, pattern string, p bed.Packager) {
	found, err := filepath.Glob(filepath.Join(os.Getenv("CODEX_PROXY_TEST_RELEASED"), pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, "CODEX_PROXY_TEST_RELEASED has no package of the release; `make test` makes it")
	released := found[0]
	s := furnish(bed.Empty(t, suite), p, released)
	s.assertKept("as it was made")
	for _, step := range []struct{ name, file string }{
		{"upgrade", p.Now}, {"reinstall", p.Now}, {"downgrade", released},
	} {
		s.change(step.name, func() { p.Install(s.Bed, step.file) })
		s.assertServes(step.file)
	}
	s.mendAfter(p, released)
	s.stopFirst(p, released)
	s.stayClosed(p, released)
}

// furnished is a server with the data of an operator and of clients.
type furnished struct {
	*bed.Bed
	response string // the JSON of a stored response
	id       string
	asked    int64 // requests with the key
}

// furnish installs the release and makes two workers, one of them drained, a login, a
// second key, some usage and a stored response.
func furnish(b *bed.Bed, p bed.Packager, released string) *furnished {
	t := b.T
	p.Install(b, released)
	bed.StartOpenAI(b)
	b.MustRun(t, "ln", "-s", bed.CodexDir+"/bin/codex", "/usr/local/bin/codex")
	require.NoError(t, b.WriteFile(bed.WorkerFile, []byte(bed.RealWorker), 0o644))
	b.MustRun(t, "codex-proxy", "accounts", "add", "second")
	bed.LogIn(b, "second", "sk-second-SECRET")
	bed.AddKey(b, "other", "--requests-per-minute=1000")
	b.Key = bed.Trim(b.MustRun(t, "cat", firstKey))
	s := &furnished{Bed: b}
	b.MustRun(t, "systemctl", "start", "codex-proxy")
	b.Until("two ready", func(_ int, r bed.Report) bool {
		return len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready
	})
	require.NoError(t, b.Models.Script("text first answer", "usage 21 8 13 5"))
	s.response = s.ask(http.MethodPost, "/v1/responses", `{"model":"`+bed.Model+`","input":"first question"}`)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(s.response), &made))
	s.id = made.ID
	b.MustRun(t, "codex-proxy", "drain", "second")
	return s
}

// ask sends a request with the key and returns the answer, which must be a success.
func (s *furnished) ask(method, path, body string) string {
	s.T.Helper()
	req, err := http.NewRequestWithContext(s.T.Context(), method, bed.Base+path, strings.NewReader(body))
	require.NoError(s.T, err)
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true // a kept connection belongs to the earlier process
	res, err := s.HTTP.Do(req)
	require.NoError(s.T, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(s.T, err)
	require.Equal(s.T, http.StatusOK, res.StatusCode, string(answer))
	if method == http.MethodPost {
		s.asked++
	}
	return string(answer)
}

// change changes the package while a stream is open, and then restarts both workers.
func (s *furnished) change(name string, do func()) {
	s.T.Helper()
	before, codex := s.ProxyPID(), s.Codex()
	stream := bed.Hold(s.Bed, name)
	do()
	assert.NotEqual(s.T, before, s.ProxyPID(), "%s: the process before still serves", name)
	assert.Equal(s.T, codex, s.Codex(), "%s: the worker must not notice", name)
	stream.Finish(s.Bed)
	s.asked++
	bed.AwaitSole(s.Bed)
	bed.AssertSmooth(s.Bed)
	s.assertKept(name)
	s.MustRun(s.T, "systemctl", "restart", bed.WorkerUnit, "codex-worker@second.service") // with the current unit file
	s.Until("ready again", func(_ int, r bed.Report) bool {
		return r.Workers[0].Ready && r.Workers[1].Handshake != nil && r.Workers[1].ActiveState == "active"
	})
	s.assertKept(name + " and a restart of the workers")
}

// assertKept looks for all earlier data.
func (s *furnished) assertKept(after string) {
	s.T.Helper()
	s.HTTP.CloseIdleConnections()
	s.assertStored(after)
	_, r := s.Readyz()
	assert.Equal(s.T, probes.Draining, bed.ReasonOf(r, "second"), "after %s: the drain", after)
}

func (s *furnished) assertStored(after string) {
	s.T.Helper()
	assert.Equal(s.T, http.StatusUnauthorized, listModels(s.Bed, "none"), after)
	second := bed.ListAccounts(s.Bed).Accounts[1]
	assert.Equal(s.T, []string{"second", "active", "api_key"}, []string{second.Name, second.ActiveState, second.Login}, after)
	keys := bed.Keys(s.Bed, "list")
	assert.Contains(s.T, keys, "\nfirst ", after)
	assert.Contains(s.T, keys, "\nother ", after)
	assert.JSONEq(s.T, s.response, s.ask(http.MethodGet, "/v1/responses/"+s.id, ""), after)
	require.NoError(s.T, s.Models.Script("text next answer", "usage 21 8 13 5"))
	s.ask(http.MethodPost, "/v1/responses", `{"model":"`+bed.Model+`","input":"next question","previous_response_id":"`+
		s.id+`"}`)
	bed.AssertGiven(s.T, bed.LastTurn(s.Models), "first question", "first answer", "next question")
	bed.UntilKeyUsed(s.Bed, "first", s.asked)
}

// assertServes reads the version of a package from its name, and that of the process
// that serves.
func (s *furnished) assertServes(file string) {
	s.T.Helper()
	want := regexp.MustCompile(`[0-9]+(\.[0-9]+)+`).FindString(filepath.Base(file))
	assert.Contains(s.T, s.ask(http.MethodGet, "/metrics", ""), `codex_proxy_build_info{version="`+want+`"} 1`)
}

// mendAfter upgrades over a broken configuration: the old program goes on until the
// configuration is mended.
func (s *furnished) mendAfter(p bed.Packager, released string) {
	s.T.Helper()
	before := s.ProxyPID()
	stream := bed.Hold(s.Bed, "broken")
	s.AppendTo(bed.ConfigFile, "keepaliv = \"1s\"\n")
	output := p.Install(s.Bed, p.Now)
	assert.Contains(s.T, output, "the old program goes on with the old configuration, for what systemctl status codex-proxy says; mend that, then: systemctl reload codex-proxy")
	assert.Contains(s.T, s.Properties(bed.ProxyUnit, "StatusText")["StatusText"],
		`unknown key "keepaliv" (did you mean "keepalive"?)`)
	assert.Equal(s.T, before, s.ProxyPID())
	s.assertServes(released)
	s.ask(http.MethodGet, "/v1/responses/"+s.id, "")
	s.change("mend", func() {
		stream.Finish(s.Bed)
		s.asked++
		s.MustRun(s.T, "sed", "-i", "/^keepaliv /d", bed.ConfigFile)
		s.MustRun(s.T, "systemctl", "reload", bed.ProxyUnit)
	})
	s.assertServes(p.Now)
}

// stopFirst downgrades and upgrades while nothing runs, with a broken configuration.
func (s *furnished) stopFirst(p bed.Packager, released string) {
	s.T.Helper()
	s.MustRun(s.T, "systemctl", "stop", "codex.target")
	assert.Contains(s.T, p.Install(s.Bed, released), "systemctl start codex-proxy\n")
	s.AppendTo(bed.ConfigFile, "keepaliv = \"1s\"\n")
	assert.Contains(s.T, p.Install(s.Bed, p.Now), "systemctl start codex-proxy\n")
	_, _, err := s.Run(s.T.Context(), "systemctl", "start", "codex-proxy")
	require.Error(s.T, err)
	assert.Contains(s.T, s.UnitJournal(bed.ProxyUnit), `did you mean \"keepalive\"?`)
	s.MustRun(s.T, "sed", "-i", "/^keepaliv /d", bed.ConfigFile)
	s.MustRun(s.T, "systemctl", "start", "codex-proxy")
	s.Until("two ready", func(_ int, r bed.Report) bool {
		return len(r.Workers) == 2 && r.Workers[0].Ready && r.Workers[1].Ready
	})
	s.assertStored("an upgrade while the service did not run")
	s.assertServes(p.Now)
}

// stayClosed downgrades a server whose last key was removed.
func (s *furnished) stayClosed(p bed.Packager, released string) {
	s.T.Helper()
	bed.Keys(s.Bed, "revoke", "first")
	bed.Keys(s.Bed, "revoke", "other")
	assert.Equal(s.T, http.StatusUnauthorized, listModels(s.Bed, ""))
	p.Install(s.Bed, released)
	assert.Equal(s.T, http.StatusUnauthorized, listModels(s.Bed, ""), "a downgrade opens nothing")
	s.MustRun(s.T, "systemctl", "restart", bed.ProxyUnit)
	assert.Equal(s.T, http.StatusUnauthorized, listModels(s.Bed, ""), "nor does a start of that")
}
