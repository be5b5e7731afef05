package proxy

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/manual"
	"codex-proxy/test/modelserver"
)

func fronts() map[string]*bed.Front {
	return map[string]*bed.Front{
		"nginx": {Unit: "nginx.service", File: "/etc/nginx/conf.d/codex-proxy.conf", Check: []string{"nginx", "-t"}},
		"caddy": {Unit: "caddy.service", File: "/etc/caddy/Caddyfile",
			Check: []string{"caddy", "validate", "--config", "/etc/caddy/Caddyfile"}},
		"haproxy": {Unit: "haproxy.service", File: "/etc/haproxy/haproxy.cfg",
			Check: []string{"haproxy", "-c", "-f", "/etc/haproxy/haproxy.cfg"}},
	}
}

// frontName is the name in the files, and otherAddr the address of the second server in a
// network that has only a loopback.
const (
	otherAddr = "127.0.0.2:8787"
)

// raise makes a certificate, writes the file, makes the program check it, and starts the
// program; load and hold go through it from then on.
func raise(b *bed.Bed, f *bed.Front, doc *manual.Manual) {
	b.T.Helper()
	b.MustRun(b.T, "sh", "-ec", `mkdir -p /etc/ssl/codex-proxy; cd /etc/ssl/codex-proxy
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=`+bed.FrontName+` -addext subjectAltName=DNS:`+bed.FrontName+` -keyout key.pem -out cert.pem
cat cert.pem key.pem >/etc/haproxy/codex-proxy.pem
chmod 644 *.pem`)
	pem, err := b.ReadFile("/etc/ssl/codex-proxy/cert.pem")
	require.NoError(b.T, err)
	f.Roots = x509.NewCertPool()
	require.True(b.T, f.Roots.AppendCertsFromPEM(pem))
	config := strings.ReplaceAll(doc.File(f.File), "10.0.0.2:8787", otherAddr)
	require.NoError(b.T, b.WriteFile(f.File, []byte(config), 0o644))
	b.MustRun(b.T, f.Check...) // fails for a mistake
	require.NoError(b.T, b.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost\n"),
		0o644)) // Caddy's own administration listens there
	b.MustRun(b.T, "systemctl", "start", f.Unit)
	b.Front = f
}

// lower stops the program.
func lower(b *bed.Bed) {
	b.T.Helper()
	b.MustRun(b.T, "systemctl", "stop", b.Front.Unit)
	b.Front = nil
}

// otherServer is a second server that is always ready, and knows one answer.
func otherServer(b *bed.Bed) *other {
	b.T.Helper()
	l, err := b.Listen("tcp", otherAddr)
	require.NoError(b.T, err)
	o := &other{asked: make(chan struct{}, 1<<16)}
	server := &http.Server{Handler: o, ReadHeaderTimeout: bed.Bound}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	b.T.Cleanup(func() { _ = server.Close(); <-done })
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
	case <-time.After(bed.Bound):
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
func awaitServer(b *bed.Bed, status string) {
	b.T.Helper()
	var now string
	await.True(b.T, func() bool {
		now = serverStatus(b)
		return now == status
	}, bed.Bound, "%s", now)
}

// serverStatus is UP, DOWN or another status of HAProxy's management guide.
func serverStatus(b *bed.Bed) string {
	b.T.Helper()
	const statusField = 17
	for line := range strings.Lines(haproxyCommand(b, "show stat")) {
		fields := strings.Split(line, ",")
		if len(fields) > statusField && fields[0] == "codex_proxy" && fields[1] == "a" {
			return fields[statusField]
		}
	}
	return "not there"
}

// haproxyCommand runs one command of its stats socket.
func haproxyCommand(b *bed.Bed, command string) string {
	b.T.Helper()
	conn, err := b.DialUnix(b.T.Context(), "/run/haproxy/admin.sock")
	require.NoError(b.T, err)
	defer conn.Close()
	require.NoError(b.T, conn.SetDeadline(time.Now().Add(bed.Bound)))
	_, err = conn.Write([]byte(command + "\n"))
	require.NoError(b.T, err)
	answer, err := io.ReadAll(conn)
	require.NoError(b.T, err)
	return string(answer)
}

// holdHere is hold, on the server a.
func holdHere(b *bed.Bed, gate string) *bed.Held {
	b.T.Helper()
	haproxyCommand(b, "set server codex_proxy/b state maint")
	defer haproxyCommand(b, "set server codex_proxy/b state ready")
	return bed.Hold(b, gate)
}

// awaitTurn waits for a turn after the first n.
func awaitTurn(b *bed.Bed, n int) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), bed.Bound)
	defer cancel()
	_, err := b.Models.Wait(ctx, modelserver.AtLeast(n+1))
	require.NoError(b.T, err)
}
