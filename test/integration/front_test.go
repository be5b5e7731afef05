package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/manual"
	"codex-proxy/test/modelserver"
)

// front is a reverse proxy before codex-proxy, with the file in docs/reverse-proxies.md,
// and a second server behind it that is another program.
type front struct {
	unit, file string
	check      []string // the command that finds mistakes in the file
	roots      *x509.CertPool
}

func fronts() map[string]*front {
	return map[string]*front{
		"nginx": {unit: "nginx.service", file: "/etc/nginx/conf.d/codex-proxy.conf", check: []string{"nginx", "-t"}},
		"caddy": {unit: "caddy.service", file: "/etc/caddy/Caddyfile",
			check: []string{"caddy", "validate", "--config", "/etc/caddy/Caddyfile"}},
		"haproxy": {unit: "haproxy.service", file: "/etc/haproxy/haproxy.cfg",
			check: []string{"haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg"}},
	}
}

// frontName is the name in the files, and otherAddr the address of the second server in a
// network that has only a loopback.
const (
	frontName = "api.example.com"
	otherAddr = "127.0.0.2:8787"
)

// raise makes a certificate, writes the file, makes the program check it, and starts the
// program; load and hold go through it from then on.
func (b *bed) raise(f *front, doc *manual.Manual) {
	b.t.Helper()
	b.MustRun(b.t, "sh", "-ec", `mkdir -p /etc/ssl/codex-proxy; cd /etc/ssl/codex-proxy
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=`+frontName+` -addext subjectAltName=DNS:`+frontName+` -keyout key.pem -out cert.pem
cat cert.pem key.pem >/etc/haproxy/codex-proxy.pem
chmod 644 *.pem`)
	pem, err := b.ReadFile("/etc/ssl/codex-proxy/cert.pem")
	require.NoError(b.t, err)
	f.roots = x509.NewCertPool()
	require.True(b.t, f.roots.AppendCertsFromPEM(pem))
	config := strings.ReplaceAll(doc.File(f.file), "10.0.0.2:8787", otherAddr)
	require.NoError(b.t, b.WriteFile(f.file, []byte(config), 0o644))
	b.MustRun(b.t, f.check...) // fails for a mistake
	require.NoError(b.t, b.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost\n"),
		0o644)) // Caddy's own administration listens there
	b.MustRun(b.t, "systemctl", "start", f.unit)
	b.front = f
}

// lower stops the program.
func (b *bed) lower() {
	b.t.Helper()
	b.MustRun(b.t, "systemctl", "stop", b.front.unit)
	b.front = nil
}

// newClient has connections of its own to the proxy, or to its front.
func (b *bed) newClient() *http.Client {
	client := b.HTTPClient()
	if b.front != nil {
		client.Transport = b.front.transport(b.DialContext)
	}
	if b.key != "" {
		client.Transport = &bearer{client.Transport, b.key}
	}
	return client
}

// bearer sends an API key with each request.
type bearer struct {
	http.RoundTripper
	key string
}

// RoundTrip implements http.RoundTripper.
func (t *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.key)
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections is the method that http.Client calls.
func (t *bearer) CloseIdleConnections() {
	(&http.Client{Transport: t.RoundTripper}).CloseIdleConnections()
}

func (f *front) transport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *fronted {
	return &fronted{http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dial(ctx, network, "127.0.0.1:443")
		},
		TLSClientConfig:   &tls.Config{RootCAs: f.roots, ServerName: frontName},
		ForceAttemptHTTP2: true,
	}}
}

// fronted sends requests for the proxy to its front.
type fronted struct{ http.Transport }

// RoundTrip implements http.RoundTripper.
func (f *fronted) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = "https", frontName, ""
	return f.Transport.RoundTrip(r)
}

// otherServer is a second server that is always ready, and knows one answer.
func (b *bed) otherServer() *other {
	b.t.Helper()
	l, err := b.Listen("tcp", otherAddr)
	require.NoError(b.t, err)
	o := &other{asked: make(chan struct{}, 1<<16)}
	server := &http.Server{Handler: o, ReadHeaderTimeout: bound}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	b.t.Cleanup(func() { _ = server.Close(); <-done })
	return o
}

type other struct{ asked chan struct{} }

func (o *other) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		return
	}
	o.asked <- struct{}{}
	_, _ = w.Write([]byte(answer + " of another server [DONE]"))
}

// await waits for the next request to the other server.
func (o *other) await(t *testing.T) {
	t.Helper()
	o.forget()
	select {
	case <-o.asked:
	case <-time.After(bound):
		require.Fail(t, "the other server is not asked")
	}
}

// forget returns how many requests the server had since the last call of forget.
func (o *other) forget() int {
	n := 0
	for ; len(o.asked) > 0; n++ {
		<-o.asked
	}
	return n
}

// awaitServer waits until HAProxy reports the status for the server a.
func (b *bed) awaitServer(status string) {
	b.t.Helper()
	var now string
	require.Eventually(b.t, func() bool {
		now = b.serverStatus()
		return now == status
	}, bound, 20*time.Millisecond, "%s", now)
}

// serverStatus is UP, DOWN or another status of HAProxy's management guide.
func (b *bed) serverStatus() string {
	b.t.Helper()
	const statusField = 17
	for line := range strings.Lines(b.haproxyCommand("show stat")) {
		fields := strings.Split(line, ",")
		if len(fields) > statusField && fields[0] == "codex_proxy" && fields[1] == "a" {
			return fields[statusField]
		}
	}
	return "not there"
}

// haproxyCommand runs one command of its stats socket.
func (b *bed) haproxyCommand(command string) string {
	b.t.Helper()
	conn, err := b.DialUnix(b.t.Context(), "/run/haproxy/admin.sock")
	require.NoError(b.t, err)
	defer conn.Close()
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(bound)))
	_, err = conn.Write([]byte(command + "\n"))
	require.NoError(b.t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(b.t, err)
	return string(answer)
}

// holdHere is hold, on the server a.
func (b *bed) holdHere(gate string) *held {
	b.t.Helper()
	b.haproxyCommand("set server codex_proxy/b state maint")
	defer b.haproxyCommand("set server codex_proxy/b state ready")
	return b.hold(gate)
}

// awaitTurn waits for a turn after the first n.
func (b *bed) awaitTurn(n int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bound)
	defer cancel()
	_, err := b.models.Wait(ctx, modelserver.AtLeast(n+1))
	require.NoError(b.t, err)
}
