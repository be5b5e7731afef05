package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/daemon/operators"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// page is a console in the machine, used as its page uses it.
type page struct {
	*bed.Bed
	link, session, url string
}

const consoleURL = "http://127.0.0.1:8788"

// startConsole starts the console in the machine and returns its link.
func startConsole(b *bed.Bed, options string) (link string) {
	return startConsoleOf(b, "codex-proxy", options)
}

func startConsoleOf(b *bed.Bed, program, options string) (link string) {
	b.T.Helper()
	return bed.Trim(b.MustRun(b.T, "sh", "-ec", "rm -f /run/link; mkfifo /run/link; "+
		"setsid "+program+" console "+options+" >/run/link 2>/run/console.log </dev/null & head -n 1 /run/link"))
}

// openConsole starts the console, and opens its link.
func openConsole(b *bed.Bed, options string) *page { return openConsoleAt(b, options, consoleURL) }

func openConsoleAt(b *bed.Bed, options, url string) *page {
	b.T.Helper()
	p := &page{Bed: b, link: startConsole(b, options), url: url}
	address, token, found := strings.Cut(p.link, "/#")
	require.True(b.T, found, p.link)
	require.Equal(b.T, url, address)
	status, answer := p.post("/api/session", map[string]any{"token": token})
	require.Equal(b.T, http.StatusOK, status, answer)
	p.session = answer["session"].(string)
	return p
}

func (p *page) post(path string, body any) (status int, answer map[string]any) {
	p.T.Helper()
	text, err := json.Marshal(body)
	require.NoError(p.T, err)
	res := p.do(http.MethodPost, path, bytes.NewReader(text))
	defer res.Body.Close()
	require.NoError(p.T, json.NewDecoder(res.Body).Decode(&answer))
	return res.StatusCode, answer
}

func (p *page) do(method, path string, body io.Reader) *http.Response {
	p.T.Helper()
	req, err := http.NewRequestWithContext(p.T.Context(), method, p.url+path, body)
	require.NoError(p.T, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+p.session)
	res, err := p.HTTPClient().Do(req)
	require.NoError(p.T, err)
	return res
}

func (p *page) order(verb string, words map[string]string) (status int, answer map[string]any) {
	p.T.Helper()
	return p.post("/api/do", map[string]any{"verb": verb, "words": words})
}

// until waits for a line of the stream.
func until(t *testing.T, stream *json.Decoder, what string, ok func(operators.Event) bool) {
	t.Helper()
	for {
		var e operators.Event
		require.NoError(t, stream.Decode(&e), what)
		if ok(e) {
			return
		}
	}
}

// The console of an installed service: it shows the death of a worker, drains, makes and revokes keys, and its server is
// a process without rights.
func TestConsole(t *testing.T) { bed.BothSuites(t, testConsole) }

func testConsole(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	b.Start()
	p := openConsole(b, "")
	res := p.do(http.MethodGet, "/api/watch", nil)
	defer res.Body.Close()
	stream := json.NewDecoder(res.Body)
	until(t, stream, "ready", func(e operators.Event) bool { return e.Whole && e.Status.OK && e.Accounts != nil && e.Keys != nil })
	b.Signal(b.Codex(), unix.SIGKILL)
	until(t, stream, "the worker is down", func(e operators.Event) bool { return e.Status != nil && !e.Status.OK })
	until(t, stream, "the worker is back", func(e operators.Event) bool { return e.Status != nil && e.Status.OK })
	status, answer := p.order("drain", map[string]string{"worker": "default"})
	require.Equal(t, http.StatusOK, status, answer)
	until(t, stream, "drained", func(e operators.Event) bool { return e.Status != nil && e.Status.Workers[0].Drained })
	status, answer = p.order("undrain", map[string]string{"worker": "default"})
	require.Equal(t, http.StatusOK, status, answer)

	status, answer = p.order("add", map[string]string{"key": "alice", "tokens-per-day": "1000"})
	require.Equal(t, http.StatusOK, status, answer)
	until(t, stream, "the key", func(e operators.Event) bool { return e.Keys != nil && e.Keys.Count == 1 })
	b.Key, _ = answer["key"].(string)
	code, _, body := askWith(b, b.Key)
	require.Equal(t, http.StatusOK, code, body)
	until(t, stream, "the request", func(e operators.Event) bool {
		return len(e.Requests) == 1 && e.Requests[0].Key == "alice" && e.Requests[0].Outcome == "ok"
	})
	status, answer = p.order("doctor", nil)
	require.Equal(t, http.StatusOK, status)
	assert.NotEmpty(t, answer["findings"])
	b.MustRun(t, "systemctl", "reload", "codex-proxy")
	until(t, stream, "everything again after a reload", func(e operators.Event) bool {
		return e.Whole && len(e.Requests) > 0 && e.Requests[0].Key == "alice"
	})
	status, answer = p.order("revoke", map[string]string{"key": "alice"})
	require.Equal(t, http.StatusOK, status, answer)
	code, _, _ = askWith(b, b.Key)
	assert.Equal(t, http.StatusUnauthorized, code)

	server := b.MustRun(t, "sh", "-ec", "cat /proc/$(pgrep -f 'console-serve$')/status; ls /proc/$(pgrep -f 'console-serve$')/fd | wc -l")
	assert.Contains(t, server, "Uid:\t65534\t65534\t65534\t65534\n")
	assert.Contains(t, server, "CapEff:\t0000000000000000\n")
	assert.Contains(t, server, "CapPrm:\t0000000000000000\n")
	assert.Contains(t, server, "NoNewPrivs:\t1\n")
	testOtherUsers(b, p)
	b.MustRun(t, "sh", "-ec", "kill -INT $(pgrep -f 'codex-proxy console$')")
	await.True(t, func() bool { // the server ends with the command
		_, _, err := b.Run(t.Context(), "pgrep", "-f", "codex-proxy console|console-serve")
		return err != nil
	}, bed.Bound, "the console has not ended")
	_, _, err := b.Run(t.Context(), "curl", "-s", "--max-time", "5", consoleURL)
	assert.Error(t, err, "nothing listens any more")
}

// testOtherUsers tries the console as another user of the machine, who has no link, and looks for it.
func testOtherUsers(b *bed.Bed, p *page) {
	for name, command := range map[string]string{
		"orders":                  `curl -s -X POST -H 'Content-Type: application/json' -d '{"verb":"drain","words":{"worker":"default"}}' ` + consoleURL + "/api/do",
		"the stream":              "curl -s " + consoleURL + "/api/watch",
		"the used link":           `curl -s -X POST -H 'Content-Type: application/json' -d '{"token":"` + p.link[strings.Index(p.link, "#")+1:] + `"}' ` + consoleURL + "/api/session",
		"the control socket":      "curl -s --unix-socket /run/codex-proxy/control/socket http://control/v1/status || echo error",
		"the command":             "codex-proxy console --port=0 2>&1 || echo error",
		"the memory of the other": "cat /proc/$(pgrep -f 'console-serve$')/environ 2>&1 || echo error",
	} {
		out := b.MustRun(b.T, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", command)
		assert.Contains(b.T, out, "error", name)
		assert.NotContains(b.T, out, p.session, name)
	}
	line := b.MustRun(b.T, "sh", "-ec", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
	assert.NotContains(b.T, line, p.link[strings.Index(p.link, "#")+1:], "no secret is in an argument")
}

func askWith(b *bed.Bed, key string) (status int, header http.Header, body string) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	text := `{"model":"` + bed.Model + `","messages":[{"role":"user","content":"hi"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bed.Base+"/v1/chat/completions", strings.NewReader(text))
	require.NoError(b.T, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := b.HTTPClient().Do(req)
	require.NoError(b.T, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	require.NoError(b.T, err)
	return res.StatusCode, res.Header, string(got)
}

// With --read-only the page shows everything and changes nothing.
func TestConsoleReadOnly(t *testing.T) {
	bed.EitherSuite(t, func(t *testing.T, suite string) {
		b := bed.New(t, suite, bed.RealWorker, "")
		b.Start()
		began := time.Now()
		p := openConsole(b, "--read-only")
		t.Logf("link and session after %s", time.Since(began).Round(time.Millisecond))
		for verb, words := range map[string]map[string]string{
			"drain": {"worker": "default"}, "add": {"key": "mallory"}, "pause": {"account": "default"},
		} {
			status, answer := p.order(verb, words)
			assert.Equal(t, http.StatusUnprocessableEntity, status, verb)
			assert.Contains(t, answer["error"], "--read-only", verb)
		}
		assert.Contains(t, b.MustRun(t, "codex-proxy", "status", "--json"), `"drained":false`)
	})
}

// The page in Debian's browser: it paints, shows the death of a worker, drains by a click and by the keyboard, has a
// person work with a remote, fits a phone, and is fit for screen readers.
func TestConsoleInABrowser(t *testing.T) {
	t.Parallel()
	b := bed.NewOn(t, browserRoot("trixie"), bed.RealWorker, "")
	b.Start()
	bed.NewRemote(b, "build", "", "")
	d := startDriver(b)
	began := time.Now()
	d.open(startConsole(b, ""))
	d.until(`document.querySelector("#ready.ready")`)
	t.Logf("the page is there %s after the command", time.Since(began).Round(time.Millisecond))
	assert.Equal(t, consoleURL+"/#", d.script("return location.href"), "the token does not stay in the address")
	down := make(chan time.Duration, 1)
	killed := time.Now()
	go func() {
		d.until(`document.querySelector("#ready.not")`)
		down <- time.Since(killed)
	}()
	b.Signal(b.Codex(), unix.SIGKILL)
	t.Logf("the death of the worker is shown within %s", (<-down).Round(time.Millisecond))
	d.until(`document.querySelector("#ready.ready")`)

	d.click(`nav a[href="#workers"]`)
	d.until(`document.querySelector("button[data-verb=drain]")`)
	clicked := time.Now()
	d.click("button[data-verb=drain]")
	d.until(`document.querySelector("button[data-verb=undrain]")`)
	t.Logf("drained %s after the click", time.Since(clicked).Round(time.Millisecond))
	assert.Contains(t, b.MustRun(t, "codex-proxy", "status", "--json"), `"drained":true`)
	assert.Equal(t, "undrain", d.script("return document.activeElement.dataset.verb"), "the focus stays")
	d.keys("button[data-verb=undrain]", "\ue007") // Enter
	d.until(`document.querySelector("button[data-verb=drain]")`)

	d.remote()
	d.judge("overview", "workers", "keys", "requests", "remotes", "dependencies", "doctor")
	d.crowd()
	d.noFaults("")
	d.pictures()
	d.afar()
}
