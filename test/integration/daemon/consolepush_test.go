package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/webpush/webpushtest"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

const (
	pushHost = "push.example.com"
	pushCA   = "/etc/ssl/push-test.pem"
)

// notification is what the service worker of the page gets.
type notification struct {
	Title, Body, Token string
	Actions            []struct{ Action string }
}

// pushService is a push service in the machine, with the browsers that it knows.
type pushService struct {
	b       *bed.Bed
	got     map[string]chan notification // by the path
	gone    string                       // a path that takes no more
	public  string
	browser map[string]*webpushtest.Browser
}

// startPushService serves the host of a push service on the loopback, which the settings allow.
func startPushService(b *bed.Bed, names ...string) *pushService {
	b.T.Helper()
	s := &pushService{b: b, got: map[string]chan notification{}, browser: map[string]*webpushtest.Browser{}}
	for _, name := range names {
		s.got["/"+name], s.browser["/"+name] = make(chan notification, 20), webpushtest.NewBrowser(b.T)
	}
	certificate, root := bed.Certify(b.T, pushHost)
	require.NoError(b.T, b.WriteFile(pushCA, root, 0o644))
	b.DropIn("codex-proxy-fetch.service", "push", "[Service]\nEnvironment=SSL_CERT_FILE="+pushCA+"\n")
	b.AppendTo("/etc/hosts", "127.0.0.9 "+pushHost+"\n")
	l, err := b.Listen("tcp", "127.0.0.9:443")
	require.NoError(b.T, err)
	b.ServeTLSOn(l, certificate, s)
	return s
}

func (s *pushService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	to := s.browser[r.URL.Path]
	if !assert.NoError(s.b.T, err) || to == nil || r.URL.Path == s.gone {
		w.WriteHeader(http.StatusGone)
		return
	}
	claims, err := webpushtest.Verify(r.Header.Get("Authorization"), s.public)
	assert.NoError(s.b.T, err)
	assert.Equal(s.b.T, "https://"+pushHost, claims.Audience)
	text, err := to.Decrypt(body)
	assert.NoError(s.b.T, err)
	var n notification
	assert.NoError(s.b.T, json.Unmarshal(text, &n))
	s.got[r.URL.Path] <- n
	w.WriteHeader(http.StatusCreated)
}

// subscribe turns notifications on, as the page does.
func (s *pushService) subscribe(p *page, name string) {
	t := s.b.T
	t.Helper()
	status, answer := p.order("push", nil)
	require.Equal(t, http.StatusOK, status, answer)
	s.public, _ = answer["public_key"].(string)
	of := s.browser["/"+name]
	status, answer = p.order("subscribe", map[string]string{"endpoint": "https://" + pushHost + "/" + name, "p256dh": of.P256dh(), "auth": of.Auth()})
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, "Notifications are on", (<-s.got["/"+name]).Title)
}

// A remote calls the browsers of people who are away, through a push service; a button of the notification approves, and
// the turn goes on.
func TestConsolePush(t *testing.T) { bed.BothSuites(t, testConsolePush) }

func testConsolePush(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "[console]\norigins = [\""+afarURL+"\"]\npush_private = [\"127.0.0.9/32\"]\n")
	service := startPushService(b, "phone", "alice", "other", "gone")
	b.Start()
	bed.NewRemote(b, "build", "", "[notify]\npush = true\n")
	key := func(name string, options ...string) *page {
		return enter(b, bed.Trim(b.MustRun(t, append([]string{"codex-proxy", "keys", "add", name}, options...)...)))
	}
	found := b.MustRun(t, "sh", "-c", "codex-proxy doctor --json || true")
	assert.Contains(t, found, "systemctl enable --now codex-console.socket", "push = true reaches nobody")
	b.MustRun(t, "systemctl", "enable", "--now", "codex-console.socket")
	assert.Equal(t, "root:codex-remote 660\n", b.MustRun(t, "stat", "-c", "%U:%G %a", "/run/codex-remote/.push"))
	phone, alice, other := key("phone", "--console=operate", "--remotes=build"), key("alice", "--console=read", "--remotes=build"), key("other", "--console=operate")
	for name, p := range map[string]*page{"phone": phone, "alice": alice, "other": other, "gone": phone} {
		service.subscribe(p, name)
	}
	for name, endpoint := range map[string]string{"loopback": "https://127.0.0.1:8787/", "the metadata of a cloud": "https://169.254.169.254/", "no TLS": "http://" + pushHost + "/phone"} {
		of := service.browser["/phone"]
		status, answer := phone.order("subscribe", map[string]string{"endpoint": endpoint, "p256dh": of.P256dh(), "auth": of.Auth()})
		assert.Equal(t, http.StatusUnprocessableEntity, status, name)
		assert.NotEmpty(t, answer["error"], name)
	}
	service.gone = "/gone"
	ask := func(file string) notification {
		require.NoError(t, b.Models.Add(modelserver.Script{Word: "a-wish", Times: 1, Steps: []string{
			`call exec_command {"cmd":"touch /srv/build/` + file + `","sandbox_permissions":"require_escalated","justification":"MAY-I"}`}}))
		b.MustRun(t, "codex-proxy", "remotes", "send", "build", "a-wish")
		return <-service.got["/phone"]
	}
	answer := func(token, decision string) (int, map[string]any) {
		return (&page{Bed: b, url: afarURL}).post("/api/answer", map[string]any{"token": token, "decision": decision})
	}
	n := ask("made")
	assert.Equal(t, "build asks: run this command?", n.Title)
	assert.Contains(t, n.Body, "touch /srv/build/made")
	require.Len(t, n.Actions, 2)
	waits := <-service.got["/alice"]
	assert.Equal(t, "build: a turn waits for a person", waits.Title)
	assert.Empty(t, waits.Token+strings.Repeat("x", len(waits.Actions)), "a reader has no buttons")
	_, _, err := b.Run(t.Context(), "test", "-e", "/srv/build/made")
	require.Error(t, err, "it waits")
	status, got := answer(n.Token+"x", "accept")
	assert.Equal(t, http.StatusUnprocessableEntity, status, got)
	require.NoError(t, b.Models.Add(modelserver.Script{Word: "a-wish", Times: 1, Steps: []string{"text it has run"}}))
	status, got = answer(n.Token, "accept")
	require.Equal(t, http.StatusOK, status, got)
	for _, name := range []string{"/phone", "/alice"} {
		assert.Equal(t, notification{Title: "build: the turn has ended", Body: "it has run"}, <-service.got[name])
	}
	b.MustRun(t, "test", "-e", "/srv/build/made")
	status, got = answer(n.Token, "accept")
	assert.Equal(t, http.StatusUnprocessableEntity, status, "again")
	assert.Contains(t, got["error"], "was answered before")

	n = ask("never")
	b.MustRun(t, "codex-proxy", "keys", "set", "phone", "--console=read")
	status, got = answer(n.Token, "accept")
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, got["error"], "may not answer any more")
	b.MustRun(t, "codex-proxy", "keys", "revoke", "phone")
	status, _ = answer(n.Token, "accept")
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	_, _, err = b.Run(t.Context(), "test", "-e", "/srv/build/never")
	require.Error(t, err)
	assert.Empty(t, service.got["/other"], "a key without the remote is not called")

	// Another process than the main one of a remote calls nobody, even with the group of remotes.
	const lie = `my $s = IO::Socket::UNIX->new(Peer => "/run/codex-remote/.push") or die "$!\n"; print $s q({"remote":"build","event":"turn-ended","text":"a lie"});`
	_, stderr, err := b.Run(t.Context(), "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "perl", "-MIO::Socket::UNIX", "-e", lie)
	require.Error(t, err)
	assert.Contains(t, stderr, "Permission denied")
	b.MustRun(t, "setpriv", "--reuid=nobody", "--regid=codex-remote", "--clear-groups", "perl", "-MIO::Socket::UNIX", "-e", lie)
	await.True(t, func() bool {
		return strings.Contains(b.MustRun(t, "journalctl", "--no-pager"), "a notice for browsers is refused")
	}, bed.Bound)
	assert.Equal(t, "codex-proxy:codex-proxy 600\ncodex-proxy:codex-proxy 600\n", b.MustRun(t, "stat", "-c", "%U:%G %a", "/var/lib/codex-console/push-key", "/var/lib/codex-console/push.json"))
	b.UntilMetric("codex_pushes_total{outcome=\"gone\"} 1")
	journal := b.MustRun(t, "journalctl", "--no-pager", "-o", "export")
	for _, secret := range []string{n.Token, pushHost + "/phone", "touch /srv/build", "it has run", "MAY-I"} {
		assert.NotContains(t, journal, secret)
	}
}
