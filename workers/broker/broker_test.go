package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	. "codex-proxy/workers/broker"
)

const token = "header.payload.secret"

// service is a Server on a socket, with a fake choice.
type service struct {
	*Server
	path   string
	remote atomic.Value // the name of each peer

	mu    sync.Mutex
	asks  []Ask
	reads []string
	pids  []int32
}

func (s *service) asked() []Ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Ask(nil), s.asks...)
}

func newService(t *testing.T, lend func(a Ask) (Assignment, error)) *service {
	s := &service{path: filepath.Join(t.TempDir(), "s")}
	s.remote.Store("build")
	s.Server = &Server{
		Peer: func(_ context.Context, pid int32) (Peer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pids = append(s.pids, pid)
			return Peer{Remote: s.remote.Load().(string), Run: fmt.Sprint(pid)}, nil
		},
		Assign: func(_ context.Context, remote string, a Ask) (Assignment, error) {
			assert.Equal(t, s.remote.Load(), remote)
			s.mu.Lock()
			s.asks = append(s.asks, a)
			s.mu.Unlock()
			return lend(a)
		},
		Limits: func(account string, limits json.RawMessage) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.reads = append(s.reads, account+string(limits))
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	return s
}

func (s *service) listen(t *testing.T) net.Listener {
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.path, Net: "unixpacket"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false) // as a socket of systemd
	return l
}

// serve serves until the returned function is called, or the test ends.
func (s *service) serve(t *testing.T, l net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() { cancel(); assert.NoError(t, <-done) })
	t.Cleanup(stop)
	return stop
}

func (s *service) client(t *testing.T) *Client {
	ctx, cancel := context.WithCancel(context.Background())
	c, done := NewClient(s.path), make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// worker is a connection to a fake worker, which has answered already.
func worker(login Login, err error) *os.File {
	fds, fail := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if fail != nil {
		panic(fail)
	}
	far := os.NewFile(uintptr(fds[0]), "worker")
	defer far.Close()
	_ = Answer(far, login, err)
	return os.NewFile(uintptr(fds[1]), "connection")
}

func bound(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// The login comes over the descriptor of a connection, and never in a message of the service.
func TestLease(t *testing.T) {
	login := Login{AccessToken: token, AccountID: "acc", Plan: "pro", Email: "a@example.com", ExpiresAt: 7}
	s := newService(t, func(a Ask) (Assignment, error) {
		if a.Have {
			return Assignment{Account: a.Hold}, nil
		}
		return Assignment{Account: "b", Why: "a is used up", Worker: worker(login, nil)}, nil
	})
	s.serve(t, s.listen(t))
	c := s.client(t)
	ask := Ask{Accounts: []string{"a", "b"}, Hold: "a", Refused: UsageLimit, ResetsAt: 9, Turn: true}
	got, err := c.Acquire(bound(t), ask)
	require.NoError(t, err)
	assert.Equal(t, Grant{Account: "b", Why: "a is used up", Login: login}, got)
	got, err = c.Acquire(bound(t), Ask{Hold: "b", Have: true})
	require.NoError(t, err)
	assert.Equal(t, Grant{Account: "b", Kept: true}, got)
	assert.Equal(t, []Ask{ask, {Hold: "b", Have: true}}, s.asked())
	assert.Equal(t, map[string][]string{"b": {"build"}}, s.Holders())
	for _, pid := range s.pids {
		assert.EqualValues(t, os.Getpid(), pid)
	}
}

func TestAnErrorOfTheService(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	s := newService(t, func(a Ask) (Assignment, error) {
		if a.Turn {
			return Assignment{}, fmt.Errorf("wrapped: %w", &Error{Code: QuotaExhausted, Message: "no account has quota", RetryAt: at})
		}
		return Assignment{}, errors.New("other")
	})
	s.serve(t, s.listen(t))
	c := s.client(t)
	_, err := c.Acquire(bound(t), Ask{Turn: true})
	assert.Equal(t, &Error{Code: QuotaExhausted, Message: "no account has quota", RetryAt: at}, err)
	_, err = c.Acquire(bound(t), Ask{})
	assert.Equal(t, Unavailable, CodeOf(err))
	assert.Equal(t, Code(""), CodeOf(io.EOF))
}

// An account that sends no login is left out, and the next one serves. Without another one the error is of the first.
func TestAnAccountThatLendsNothing(t *testing.T) {
	only := false
	s := newService(t, func(a Ask) (Assignment, error) {
		switch {
		case len(a.Avoid) == 0:
			return Assignment{Account: "a", Worker: worker(Login{}, &Error{Code: NoAccount, Message: "it has an API key"})}, nil
		case len(a.Avoid) == 1 && !only:
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			_ = unix.Close(fds[0]) // its worker ends
			return Assignment{Account: "b", Worker: os.NewFile(uintptr(fds[1]), "")}, nil
		case only:
			return Assignment{}, &Error{Code: NoAccount, Message: "no account is left"}
		}
		return Assignment{Account: "c", Worker: worker(Login{AccessToken: token, AccountID: "acc"}, nil)}, nil
	})
	s.serve(t, s.listen(t))
	c := s.client(t)
	got, err := c.Acquire(bound(t), Ask{})
	require.NoError(t, err)
	assert.Equal(t, "c", got.Account)
	assert.Equal(t, []string{"a", "b"}, s.asked()[2].Avoid)
	only = true
	_, err = c.Acquire(bound(t), Ask{})
	assert.Equal(t, &Error{Code: NoAccount, Message: "account a: it has an API key"}, err)
}

// A login that is refused causes no rotation.
func TestARefusedLogin(t *testing.T) {
	s := newService(t, func(Ask) (Assignment, error) {
		return Assignment{Account: "a", Worker: worker(Login{}, &Error{Code: LoginInvalid, Message: "log in again"})}, nil
	})
	s.serve(t, s.listen(t))
	_, err := s.client(t).Acquire(bound(t), Ask{Hold: "a", Refused: Unauthorized, Token: Digest(token)})
	assert.Equal(t, &Error{Code: LoginInvalid, Message: "account a: log in again"}, err)
	assert.Len(t, s.asked(), 1)
}

// A remote that asks nothing does not dial: that would start a service which an operator has stopped.
func TestNoDialWithoutAQuestion(t *testing.T) {
	s := newService(t, func(Ask) (Assignment, error) { return Assignment{Account: "a"}, nil })
	l := s.listen(t)
	file, err := l.(*net.UnixListener).File()
	require.NoError(t, err)
	defer file.Close()
	stop := s.serve(t, l)
	c := s.client(t)
	_, err = c.Acquire(bound(t), Ask{})
	require.NoError(t, err)
	stop()
	again, err := net.FileListener(file)
	require.NoError(t, err)
	require.NoError(t, again.(*net.UnixListener).SetDeadline(time.Now().Add(300*time.Millisecond)))
	_, err = again.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, again.(*net.UnixListener).SetDeadline(time.Time{}))
	s.serve(t, again)
	_, err = c.Acquire(bound(t), Ask{})
	require.NoError(t, err)
}

// Bytes that are no login are no part of an error.
func TestNoTokenInErrors(t *testing.T) {
	for _, text := range []string{"{" + token, token + "\n", `{"access_token":"` + token + `"}` + "\n", `{"error":"` + token + `"}` + "\n"} {
		s := newService(t, func(a Ask) (Assignment, error) {
			if len(a.Avoid) > 0 {
				return Assignment{}, &Error{Code: NoAccount}
			}
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			_, err = unix.Write(fds[0], []byte(text))
			require.NoError(t, err)
			_ = unix.Close(fds[0])
			return Assignment{Account: "a", Worker: os.NewFile(uintptr(fds[1]), "")}, nil
		})
		s.serve(t, s.listen(t))
		_, err := s.client(t).Acquire(bound(t), Ask{})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), token)
	}
	l := Login{AccessToken: token, Email: "a@example.com"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "login", l)
	text := log.String() + fmt.Sprintf("%v %+v %#v %s", l, l, l, l)
	assert.NotContains(t, text, "secret")
	assert.Contains(t, text, "a@example.com")
}

// A question that the service did not answer is asked again on the next connection; until there is one, it waits in
// the socket.
func TestARestartOfTheService(t *testing.T) {
	asked := make(chan struct{})
	var lost atomic.Bool
	lost.Store(true)
	s := newService(t, func(Ask) (Assignment, error) {
		if lost.Load() {
			close(asked)
			return Assignment{}, &Error{Code: Unavailable, Message: "of a process that ends"}
		}
		return Assignment{Account: "a", Worker: worker(Login{AccessToken: token, AccountID: "acc"}, nil)}, nil
	})
	lend := s.Assign
	s.Assign = func(ctx context.Context, remote string, a Ask) (Assignment, error) {
		assignment, err := lend(ctx, remote, a)
		if lost.Load() {
			<-ctx.Done()
		}
		return assignment, err
	}
	l := s.listen(t)
	file, err := l.(*net.UnixListener).File() // systemd's
	require.NoError(t, err)
	defer file.Close()
	stop := s.serve(t, l)
	c := s.client(t)
	type result struct {
		Grant
		error
	}
	got := make(chan result, 1)
	go func() {
		g, err := c.Acquire(bound(t), Ask{})
		got <- result{g, err}
	}()
	<-asked
	stop()
	lost.Store(false)
	again, err := net.FileListener(file)
	require.NoError(t, err)
	s.serve(t, again)
	r := <-got
	if CodeOf(r.error) == Unavailable { // the old process could still answer
		r.Grant, r.error = c.Acquire(bound(t), Ask{})
	}
	require.NoError(t, r.error)
	assert.Equal(t, "a", r.Account)
}

func TestNoService(t *testing.T) {
	s := newService(t, nil)
	l := s.listen(t)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.client(t).Acquire(ctx, Ask{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "codex-proxy.service does not answer")
}

// The error of a remote that is none says so.
func TestARefusedClient(t *testing.T) {
	s := newService(t, nil)
	s.Peer = func(context.Context, int32) (Peer, error) {
		return Peer{}, &Error{Code: NotARemote, Message: "only the main process of a remote"}
	}
	s.serve(t, s.listen(t))
	c := s.client(t)
	assert.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := c.Acquire(ctx, Ask{})
		return strings.Contains(err.Error(), "only the main process of a remote")
	}, time.Minute, time.Millisecond)
}

// A remote is told once that its account would change, until it asks again.
func TestTell(t *testing.T) {
	s := newService(t, func(Ask) (Assignment, error) { return Assignment{Account: "a"}, nil })
	s.serve(t, s.listen(t))
	c := s.client(t)
	s.Tell(func(string, Ask) bool { t.Error("it holds nothing"); return true })
	_, err := c.Acquire(bound(t), Ask{Accounts: []string{"a"}})
	require.NoError(t, err)
	asked := 0
	other := func(remote string, held Ask) bool {
		asked++
		assert.Equal(t, "build", remote)
		assert.Equal(t, Ask{Accounts: []string{"a"}, Hold: "a"}, held)
		return asked > 1
	}
	for range 4 {
		s.Tell(other)
	}
	assert.Equal(t, 2, asked)
	select {
	case <-c.Changed():
	case <-bound(t).Done():
		t.Fatal("not told")
	}
	_, err = c.Acquire(bound(t), Ask{Accounts: []string{"a"}, Hold: "a"})
	require.NoError(t, err)
	s.Tell(other)
	<-c.Changed()
}

// Only readings of the account that the remote holds count.
func TestReportLimits(t *testing.T) {
	s := newService(t, func(Ask) (Assignment, error) { return Assignment{Account: "a"}, nil })
	s.serve(t, s.listen(t))
	c := s.client(t)
	c.ReportLimits("a", json.RawMessage(`{}`)) // it holds none yet
	for range 2 {
		_, err := c.Acquire(bound(t), Ask{})
		require.NoError(t, err)
		c.ReportLimits("b", json.RawMessage(`{"x":1}`))
		c.ReportLimits("a", json.RawMessage(`{"x":2}`))
	}
	_, err := c.Acquire(bound(t), Ask{}) // the messages are taken in order
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, []string{`a{"x":2}`, `a{"x":2}`}, s.reads)
}

// The line asks for a refresh only with a digest.
func TestQuestion(t *testing.T) {
	refused := Digest(token)
	assert.Equal(t, "codex-proxy login\n", QuestionFor(Ask{}))
	assert.Equal(t, "codex-proxy login\n", QuestionFor(Ask{Refused: UsageLimit, Token: refused}))
	line := QuestionFor(Ask{Refused: Unauthorized, Token: refused})
	assert.Equal(t, "codex-proxy login "+refused+"\n", line)
	assert.Equal(t, refused, RefusedIn(line))
	assert.Empty(t, RefusedIn("codex-proxy login\n"))
	for _, forged := range []string{"x", refused + "\nrest now", refused + refused, "rest\n"} {
		assert.Equal(t, "codex-proxy login\n", QuestionFor(Ask{Refused: Unauthorized, Token: forged}))
	}
}

func TestLasts(t *testing.T) {
	now := time.Unix(1000, 0)
	l := Login{AccessToken: token, ExpiresAt: 1300}
	assert.True(t, l.Lasts(now, 4*time.Minute))
	assert.False(t, l.Lasts(now, 5*time.Minute))
	assert.True(t, Login{AccessToken: token}.Lasts(now, time.Hour))
	assert.False(t, Login{}.Lasts(now, 0))
}
