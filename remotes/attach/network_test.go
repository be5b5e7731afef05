package attach

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/probes"
	"codex-proxy/proxy"
	"codex-proxy/proxy/answer"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/connections"
	"codex-proxy/proxy/limits"
	"codex-proxy/remotes/links"
	"codex-proxy/test/modelserver"
)

// codex's own TUI attaches by wss with a key. A reload of codex-proxy in the middle of a turn cuts nothing, and after a
// restart the TUI connects again by itself.
func TestTheTUIOverTheNetwork(t *testing.T) {
	b := newBed(t)
	binary, socket := b.codex()
	b.serve(socket)
	b.person()
	secret, line, err := auth.Generate("laptop")
	require.NoError(t, err)
	keys := &auth.Keys{}
	require.NoError(t, keys.Replace(line+" remotes=build\n"))
	first := b.daemon(keys)
	front := b.front(first)

	require.NoError(t, b.model.Script("text the beginning, ", "gate reloaded", "text and it went on"))
	s := newScreen(t)
	cmd := exec.Command(binary, "--remote", "wss://"+front.address, "--remote-auth-token-env", "LAPTOP_KEY")
	cmd.Env = append(os.Environ(), "LAPTOP_KEY="+secret, "SSL_CERT_FILE="+front.authority)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.terminal, s.terminal, s.terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	s.wait("state=idle") // it is attached
	s.ask("go ahead")
	s.wait("the beginning")
	accepted := front.count()
	second := b.daemon(keys)
	front.leadTo(second)
	require.NoError(t, first.links.Leave(t.Context(), pass(t, second.links)))
	b.model.Release("reloaded")
	s.wait("and it went on")
	assert.Equal(t, accepted, front.count(), "the TUI has not connected again")

	s.wait("state=done")
	require.NoError(t, b.model.Add(modelserver.Script{ // codex asks for a title of the thread, too, and may ask first
		Word: "and now", Times: -1, Steps: []string{"text another beginning, ", "gate restarted", "text and another end"},
	}))
	s.ask("and now")
	s.wait("another beginning")
	front.leadTo(b.daemon(keys))
	began := time.Now()
	require.NoError(t, second.links.Close(t.Context(), "the service restarts"))
	front.await(accepted + 1)
	t.Logf("connected again %v after the close", time.Since(began).Round(time.Millisecond))
	b.model.Release("restarted")
	s.wait("and another end")
	assert.NotContains(t, s.shown(), "interrupted")
	s.ask("/quit")
	select {
	case err := <-ended:
		assert.NoError(t, err)
	case <-time.After(bound):
		t.Fatal("the TUI does not end")
	}
}

// daemon is one process of codex-proxy.
type daemon struct {
	links   *links.Links
	address string
}

func (b *bed) daemon(keys *auth.Keys) daemon {
	b.t.Helper()
	registry, logger := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	d := daemon{links: links.New(links.Settings{
		Keys: keys, Keepalive: time.Second, Registry: registry, Logger: logger,
		Socket: func(remote string) string { return filepath.Join(b.sockets, remote+".network.sock") },
		State:  func(context.Context, string) links.State { return links.State{Name: "active"} },
	})}
	server := proxy.New(proxy.Settings{
		Report: func() probes.Report { return probes.Report{} }, Keys: keys,
		Limiter: limits.NewLimiter(limits.Settings{Keys: keys}), Memory: limits.NewMemory(1<<20, 0),
		Connections: connections.New(nil), WriteTimeout: time.Minute, Registry: registry, Logger: logger,
	})
	server.Mount((&links.Endpoint{Links: d.links, Answers: answer.New(time.Minute, prometheus.NewRegistry())}).Routes()...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	d.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		assert.NoError(b.t, d.links.Close(ctx, "the test is over"))
		assert.NoError(b.t, server.Shutdown(ctx))
		assert.NoError(b.t, <-served)
	})
	return d
}

// pass gives links to another process.
func pass(t *testing.T, to *links.Links) links.Pass {
	return func(about any, fds ...int) error {
		raw, err := json.Marshal(about)
		require.NoError(t, err)
		var files []*os.File
		for _, fd := range fds {
			copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			require.NoError(t, err)
			files = append(files, os.NewFile(uintptr(copied), "passed"))
		}
		return to.Adopt(raw, files)
	}
}

// front is a reverse proxy with TLS in front of a daemon.
type front struct {
	address   string
	authority string // a file with the certificate of its authority

	mu       sync.Mutex
	target   string
	accepted int
	more     chan struct{} // holds a token after an accept
}

func (b *bed) front(d daemon) *front {
	b.t.Helper()
	f := &front{authority: filepath.Join(b.homes, "ca.pem"), target: d.address, more: make(chan struct{}, 1)}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate(b.t, f.authority)}})
	require.NoError(b.t, err)
	f.address = l.Addr().String()
	var serving sync.WaitGroup
	b.t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.relay(near) })
		}
	})
	return f
}

func (f *front) relay(near net.Conn) {
	defer near.Close()
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	f.mu.Lock()
	f.accepted++
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
}

func (f *front) leadTo(d daemon) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = d.address
}

func (f *front) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accepted
}

// await waits until so many connections have come.
func (f *front) await(n int) {
	for f.count() < n {
		<-f.more
	}
}

// certificate is one for 127.0.0.1, of an authority whose own certificate it writes into a file.
func certificate(t testing.TB, file string) tls.Certificate {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	top, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, top.Public(), top)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}), 0o600))
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, authority, own.Public(), top)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: own}
}
