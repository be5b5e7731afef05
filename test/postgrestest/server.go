// Package postgrestest runs a PostgreSQL for the tests of what is in it.
package postgrestest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/internal/postgres"
)

// name is the name of the server in its certificate.
const name = "db.example.com"

// nobody may run PostgreSQL: root may not.
const nobody = 65534

// Server is a PostgreSQL, and a relay to it as the product has one.
type Server struct {
	postgres.Server

	port     int
	hanging  atomic.Bool
	refusing atomic.Bool
	mu       sync.Mutex
	open     map[net.Conn]bool
	listener net.Listener
}

// Start runs a server until the end of the test. It skips the test where PostgreSQL is not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(programs) == 0 {
		t.Skip("PostgreSQL is not installed here (postgresql); TestFleet runs this test on a machine that has it")
	}
	dir, err := os.MkdirTemp("", "postgres-") // the one of a test is closed to others than root
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{port: freePort(t), open: map[net.Conn]bool{}}
	data := filepath.Join(dir, "data")
	authority := certify(t, dir)
	run(t, dir, filepath.Join(programs[0], "initdb"), "-D", data, "-U", "codex", "-A", "trust", "-E", "UTF8", "--no-sync")
	server := command(dir, filepath.Join(programs[0], "postgres"), "-D", data, "-c", "listen_addresses=127.0.0.1",
		"-c", "port="+strconv.Itoa(s.port), "-c", "unix_socket_directories=", "-c", "ssl=on", "-c", "fsync=off",
		"-c", "ssl_cert_file="+filepath.Join(dir, "certificate.pem"), "-c", "ssl_key_file="+filepath.Join(dir, "key.pem"))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
		log.Close()
	})
	address, err := postgres.ParseAddress("postgres://codex@" + name + "/postgres")
	require.NoError(t, err)
	s.Server = postgres.Server{Address: address, CA: authority, Password: "any", Relay: filepath.Join(dir, "relay.sock")}
	s.relay(t)
	pool := postgres.NewPool(s.Server)
	defer pool.Close()
	require.Eventually(t, func() bool { return pool.Probe(t.Context(), 5*time.Second) == nil }, time.Minute,
		10*time.Millisecond, "PostgreSQL does not answer: %v", pool.Away())
	return s
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// command is a program as nobody, if this is root.
func command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

func run(t testing.TB, dir, program string, args ...string) {
	t.Helper()
	out, err := command(dir, program, args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// certify makes the certificate of the server, which is its own authority.
func certify(t testing.TB, dir string) (authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{
		"certificate.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600))
		if os.Geteuid() == 0 {
			require.NoError(t, os.Chown(filepath.Join(dir, file), nobody, nobody))
		}
	}
	authority = filepath.Join(dir, "authority.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, nobody, nobody))
	}
	return authority
}

// relay serves the socket.
func (s *Server) relay(t testing.TB) {
	t.Helper()
	var err error
	s.listener, err = net.Listen("unix", s.Relay)
	require.NoError(t, err)
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { s.carry(conn) })
		}
	})
	t.Cleanup(func() {
		s.listener.Close()
		s.Hang(false)
		s.Cut()
		relays.Wait()
	})
}

// carry carries one connection.
func (s *Server) carry(conn net.Conn) {
	defer conn.Close()
	if s.refusing.Load() {
		return
	}
	server, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	if err != nil {
		return
	}
	defer server.Close()
	s.mu.Lock()
	s.open[conn] = true
	s.mu.Unlock()
	back := make(chan struct{})
	go func() {
		defer close(back)
		s.copy(conn, server)
		conn.Close()
	}()
	s.copy(server, conn)
	server.Close()
	<-back
	s.mu.Lock()
	delete(s.open, conn)
	s.mu.Unlock()
}

// copy copies until an end, but nothing while the server hangs.
func (s *Server) copy(to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		for s.hanging.Load() {
			<-time.After(time.Millisecond)
		}
		if _, writeErr := to.Write(buffer[:n]); writeErr != nil || err != nil {
			return
		}
	}
}

// Hang has the server answer nothing until it is called with false.
func (s *Server) Hang(hangs bool) { s.hanging.Store(hangs) }

// Refuse ends all connections, and has the server take none until it is called with false.
func (s *Server) Refuse(refuses bool) {
	s.refusing.Store(refuses)
	s.Cut()
}

// Cut ends all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open {
		conn.Close()
	}
}
