package remoteexec

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/test/accountserver"
	"codex-proxy/workers/broker"
)

// service plays codex-proxy.service and the workers: it lends the logins of accounts, in their order.
type service struct {
	t        *testing.T
	accounts *accountserver.Server
	socket   string

	mu       sync.Mutex
	used     map[string]time.Time // accounts without quota, until when
	dead     map[string]bool      // accounts whose logins are refused
	off      bool                 // rotation = "off"
	readings []string
	waits    int // questions for an account on behalf of a turn that waits for quota

	*broker.Server
}

// newAccountsBed prepares a remote that the accounts serve, with further keys in its file.
func newAccountsBed(t *testing.T, keys string, names ...string) (*bed, *service) {
	t.Helper()
	b := newBed(t, "")
	b.write("etc/remotes/build.toml", fmt.Sprintf("directory = %q\nmodel = \"gpt-5.5\"\ncodex_path = %q\n%s\n",
		b.dir+"/work", b.codex, keys))
	s := &service{t: t, accounts: accountserver.New(b.models, names...), socket: b.dir + "/logins.sock",
		used: map[string]time.Time{}, dead: map[string]bool{}}
	var address [2]byte
	_, _ = rand.Read(address[:])
	ip := net.IPv4(127, 1, address[0], address[1])
	ca, pair := certificate(t, "chatgpt.com")
	b.write("ca.pem", string(ca))
	b.write("hosts", fmt.Sprintf("%s chatgpt.com\n127.0.0.1 localhost\n", ip))
	b.env = append(b.env, "SSL_CERT_FILE="+b.dir+"/ca.pem")
	l, err := tls.Listen("tcp", net.JoinHostPort(ip.String(), "443"), &tls.Config{
		Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	server := &http.Server{Handler: s.accounts.Handler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	s.Server = &broker.Server{
		Peer: func(_ context.Context, pid int32) (broker.Peer, error) {
			return broker.Peer{Remote: "build", Run: fmt.Sprint(pid)}, nil
		},
		Assign: s.assign, Limits: s.limits, Logger: slog.New(slog.DiscardHandler),
	}
	return b, s
}

// certificate is one for a host, which is its own authority.
func certificate(t *testing.T, host string) (ca []byte, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve serves until the returned function is called, or the test ends.
func (s *service) serve() (stop func()) {
	s.t.Helper()
	_ = os.Remove(s.socket)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.socket, Net: "unixpacket"})
	require.NoError(s.t, err)
	require.NoError(s.t, os.Chmod(s.socket, 0o666))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() { cancel(); require.NoError(s.t, <-done) })
	s.t.Cleanup(stop)
	return stop
}

func (s *service) limits(account string, limits json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readings = append(s.readings, account+" "+string(limits))
}

// renew gives an account quota again, and says so.
func (s *service) renew(account string) {
	s.accounts.Account(account).Reset()
	s.mu.Lock()
	delete(s.used, account)
	s.mu.Unlock()
	s.Tell(func(string, broker.Ask) bool { return true })
}

// assign chooses the account that is held, else the first one that has quota. Without a rotation it lends no other one,
// and that one without quota, too, except for a turn that was refused or waits.
func (s *service) assign(_ context.Context, _ string, ask broker.Ask) (broker.Assignment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ask.Refused == broker.UsageLimit {
		s.used[ask.Hold] = time.Unix(ask.ResetsAt, 0)
	}
	if ask.Waits {
		s.waits++
	}
	var names []string
	for _, a := range s.accounts.Accounts() {
		names = append(names, a.Name)
	}
	if i := slices.Index(names, ask.Hold); i > 0 {
		names[0], names[i] = names[i], names[0]
	}
	if s.off {
		names = names[:1]
	}
	var soonest time.Time
	for _, name := range names {
		resets, used := s.used[name]
		used = used && (!s.off || ask.Waits || ask.Refused == broker.UsageLimit)
		switch {
		case len(ask.Accounts) > 0 && !slices.Contains(ask.Accounts, name), slices.Contains(ask.Avoid, name):
			continue
		case s.dead[name]:
			return broker.Assignment{}, &broker.Error{Code: broker.LoginInvalid, Message: "the login of account " + name + " is invalid: codex-proxy accounts login " + name}
		case used:
			if soonest.IsZero() || resets.Before(soonest) {
				soonest = resets
			}
			continue
		case name == ask.Hold && ask.Have:
			return broker.Assignment{Account: name}, nil
		}
		return broker.Assignment{Account: name, Why: "the other one is used up", Worker: s.worker(name)}, nil
	}
	return broker.Assignment{}, &broker.Error{Code: broker.QuotaExhausted, Message: "No account has quota", RetryAt: soonest}
}

// token is the access token of an account now.
func (s *service) token(account string) string {
	var auth struct {
		Tokens struct {
			Access string `json:"access_token"`
		} `json:"tokens"`
	}
	require.NoError(s.t, json.Unmarshal(s.accounts.Account(account).Login(), &auth))
	return auth.Tokens.Access
}

// worker is a connection to a worker that has sent its login.
func (s *service) worker(account string) *os.File {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	far := os.NewFile(uintptr(fds[0]), "worker")
	defer far.Close()
	a := s.accounts.Account(account)
	_ = broker.Answer(far, broker.Login{AccessToken: s.token(account), AccountID: a.ID(), Plan: "pro", Email: a.Email()}, nil)
	return os.NewFile(uintptr(fds[1]), "connection")
}

// turns counts the turns that an account was asked for, and those of them that it refused for its quota.
func (s *service) turns(account string) (all, refused int) {
	r := s.accounts.Account(account).Record()
	return r.Accepted() + r.Refused(), r.Refused()
}

// awaitQuestions waits for more questions of a remote for a turn that waits for quota.
func (s *service) awaitQuestions(b *bed, more int) {
	s.t.Helper()
	s.mu.Lock()
	enough := s.waits + more
	s.mu.Unlock()
	for ctx := b.bound(); ; {
		s.mu.Lock()
		asked := s.waits
		s.mu.Unlock()
		if asked >= enough {
			return
		}
		require.NoError(s.t, ctx.Err(), "the remote does not ask")
		<-time.After(5 * time.Millisecond)
	}
}

// status waits until the manager's status is as wanted.
func (b *bed) status(what string, wanted func(remotes.Status) bool) remotes.Status {
	b.t.Helper()
	for ctx := b.bound(); ; {
		st, err := remoteapi.AskStatus(ctx, b.people)
		if err == nil && wanted(st) {
			return st
		}
		require.NoError(b.t, ctx.Err(), "%s: %+v %v", what, st, err)
		<-time.After(5 * time.Millisecond)
	}
}

// startTurn starts a turn in a new thread.
func (c *client) startTurn(text string) (thread string) {
	c.b.t.Helper()
	var r struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	require.NoError(c.b.t, c.Call(c.b.bound(), "thread/start", map[string]any{}, &r))
	require.NoError(c.b.t, c.Call(c.b.bound(), "turn/start", map[string]any{"threadId": r.Thread.ID, "input": []any{
		map[string]any{"type": "text", "text": text, "text_elements": []any{}}}}, nil))
	return r.Thread.ID
}

// until waits for a notification.
func (c *client) until(what string, wanted func(method, params string) bool) {
	c.b.t.Helper()
	for ctx := c.b.bound(); ; {
		select {
		case m := <-c.notes:
			if wanted(m.Method, string(m.Params)) {
				return
			}
		case <-ctx.Done():
			require.Fail(c.b.t, "not seen: "+what)
		}
	}
}

// messages are those of people in a thread.
func (c *client) messages(thread string) (texts []string) {
	c.b.t.Helper()
	var r struct {
		Data []struct {
			Items []struct {
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"items"`
		} `json:"data"`
	}
	require.NoError(c.b.t, c.Call(c.b.bound(), "thread/turns/list", map[string]any{"threadId": thread, "limit": 100,
		"sortDirection": "asc", "itemsView": "full"}, &r))
	for _, turn := range r.Data {
		for _, item := range turn.Items {
			for _, part := range item.Content {
				texts = append(texts, part.Text)
			}
		}
	}
	return texts
}

// stop ends the main process, as systemd does.
func (b *bed) stop() {
	b.t.Helper()
	require.NoError(b.t, b.cmd.Process.Signal(unix.SIGTERM))
	<-b.ended
	b.notify.Close()
	require.NoError(b.t, os.RemoveAll(b.dir+"/notify"))
}

// saw counts the notifications of a method so far, of those that came since the last turn.
func (c *client) saw(method string) (n int) {
	for {
		select {
		case m := <-c.notes:
			if m.Method == method {
				n++
			}
		default:
			return n
		}
	}
}

// codex finds the process of the remote's codex.
func (b *bed) codexProcess() string {
	b.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(b.t, err)
	for _, file := range files {
		line, _ := os.ReadFile(file)
		if bytes.HasPrefix(line, []byte(b.dir+"/run/codex\x00app-server")) {
			return filepath.Dir(file)
		}
	}
	require.Fail(b.t, "codex does not run")
	return ""
}

// memory counts the places of the memory of a process, and of its environment, that have a text.
func memory(t *testing.T, process, text string) (places int) {
	t.Helper()
	maps, err := os.ReadFile(process + "/maps")
	require.NoError(t, err)
	mem, err := os.Open(process + "/mem")
	require.NoError(t, err)
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") {
			continue
		}
		const overlap = 8 << 10
		for chunk := make([]byte, 4<<20); from < to; from += int64(len(chunk)) - overlap {
			n, _ := mem.ReadAt(chunk[:min(int64(len(chunk)), to-from)], from)
			places += bytes.Count(chunk[:n], []byte(text))
			if int64(n) < int64(len(chunk)) {
				break
			}
		}
	}
	environ, err := os.ReadFile(process + "/environ")
	require.NoError(t, err)
	return places + bytes.Count(environ, []byte(text))
}
