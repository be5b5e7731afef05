package broker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxPeers bounds the connections, and maxOfRemote those of one remote, which needs one: the next ones wait for
	// the end of earlier ones.
	maxPeers    = 256
	maxOfRemote = 4
	// helloBound is the time for a peer to identify itself.
	helloBound = 5 * time.Second
	// asksPerSecond bounds the messages of one connection: the next ones wait.
	asksPerSecond = 20
)

// Peer is the main process of a remote.
type Peer struct {
	Remote string
	// Run is of this process alone: another one with the same number has another.
	Run string
}

// Assignment is the answer to an Ask.
type Assignment struct {
	Account string
	Why     string // it is another one than Ask.Hold; for people
	// Worker is a connection to the account's worker, on which its login was asked for. The server closes it. nil:
	// the remote keeps the login that it has.
	Worker *os.File
}

// Server answers remotes. Its functions are called from many goroutines.
type Server struct {
	// Peer returns which remote has the process as its main process.
	Peer func(ctx context.Context, pid int32) (Peer, error)
	// Assign answers an Ask. An error that is no *Error is Unavailable.
	Assign func(ctx context.Context, remote string, ask Ask) (Assignment, error)
	// Limits takes over a remote's report of the limits of an account that it holds.
	Limits func(account string, limits json.RawMessage)
	Logger *slog.Logger

	mu    sync.Mutex
	peers map[*peer]bool
}

// peer is one connection of a remote.
type peer struct {
	conn    *net.UnixConn
	remote  string
	writing sync.Mutex

	// Under the lock of the server.
	held Ask  // the last ask, with the account that it got; no Hold: none
	told bool // that it may be another one, since then
}

// Serve answers the connections of l, a socket of packets, until ctx ends. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, maxPeers)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		accepted, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = accepted.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // nearly always a temporary lack of descriptors
			<-slots
			s.Logger.Debug("cannot accept a remote", "error", err)
			select {
			case <-time.After(minPause):
			case <-ctx.Done():
			}
			continue
		}
		conn, ok := accepted.(*net.UnixConn)
		if !ok {
			_ = accepted.Close()
			return fmt.Errorf("the logins need a unix socket, not %s", l.Addr().Network())
		}
		work.Go(func() {
			defer func() { <-slots }()
			if err := s.serve(ctx, conn); err != nil {
				s.Logger.Debug("the connection of a remote to the logins has ended", "error", err)
			}
		})
	}
}

func (s *Server) serve(ctx context.Context, conn *net.UnixConn) error {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	p := &peer{conn: conn}
	who, err := s.identify(ctx, conn)
	if err == nil {
		p.remote = who.Remote
		err = s.admit(p)
	}
	if err != nil {
		_ = p.send(answer{Error: errorOf(err)}, -1)
		return err
	}
	defer s.leave(p)
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	buffer := make([]byte, maxMessage)
	var since time.Time
	for n := 0; ; n++ {
		var r request
		if _, err := receive(conn, buffer, nil, &r); err != nil {
			return err
		}
		if time.Since(since) > time.Second {
			since, n = time.Now(), 0
		} else if n >= asksPerSecond {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil
			}
		}
		switch {
		case r.Lease != nil:
			if err := s.answer(ctx, p, r.ID, *r.Lease); err != nil {
				return err
			}
		case r.Reading != nil:
			s.reportLimits(p, *r.Reading)
		}
	}
}

// identify finds out which remote the peer is. The process is the main one of the remote before the server has sent a
// word, and is the same one after the kernel has noted that the process sent it back.
func (s *Server) identify(ctx context.Context, conn *net.UnixConn) (Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, helloBound)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(helloBound)); err != nil {
		return Peer{}, err
	}
	pid, err := processOf(conn)
	if err != nil {
		return Peer{}, err
	}
	before, err := s.Peer(ctx, pid)
	if err != nil {
		return Peer{}, err
	}
	word := rand.Text()
	if err := send(conn, answer{Hello: word}, -1); err != nil {
		return Peer{}, err
	}
	var hello request
	ancillary, err := receive(conn, make([]byte, maxMessage), make([]byte, unix.CmsgSpace(unix.SizeofUcred)), &hello)
	if err != nil {
		return Peer{}, err
	}
	if sender := senderOf(ancillary); hello.Hello != word || sender != pid {
		return Peer{}, &Error{Code: NotARemote, Message: "another process has answered"}
	}
	after, err := s.Peer(ctx, pid)
	if err == nil && after != before {
		err = &Error{Code: NotARemote, Message: "the remote has restarted meanwhile"}
	}
	return after, err
}

// processOf is the process that has connected. The kernel notes the sender of each message from now on.
func processOf(conn *net.UnixConn) (pid int32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var creds *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		if creds, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed == nil {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return creds.Pid, nil
}

// senderOf is the process that has sent a message; 0 if the kernel has not noted it.
func senderOf(ancillary []byte) int32 {
	messages, err := unix.ParseSocketControlMessage(ancillary)
	if err != nil || len(messages) != 1 {
		return 0
	}
	creds, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0
	}
	return creds.Pid
}

func errorOf(err error) *Error {
	e := &Error{Code: Unavailable, Message: err.Error()}
	_ = errors.As(err, &e)
	return e
}

func (s *Server) admit(p *peer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := 0
	for other := range s.peers {
		if other.remote == p.remote {
			of++
		}
	}
	if of >= maxOfRemote {
		return &Error{Code: TooMany, Message: fmt.Sprintf("remote %s has %d connections already", p.remote, of)}
	}
	if s.peers == nil {
		s.peers = map[*peer]bool{}
	}
	s.peers[p] = true
	return nil
}

func (s *Server) leave(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
}

// answer answers one ask. The error ends the connection.
func (s *Server) answer(ctx context.Context, p *peer, id uint64, ask Ask) error {
	assignment, err := s.Assign(ctx, p.remote, ask)
	if err != nil {
		return p.send(answer{ID: id, Error: errorOf(err)}, -1)
	}
	s.mu.Lock()
	p.held, p.told = Ask{Accounts: ask.Accounts, Hold: assignment.Account}, false
	s.mu.Unlock()
	fd := -1
	if assignment.Worker != nil {
		defer assignment.Worker.Close()
		fd = int(assignment.Worker.Fd())
	}
	return p.send(answer{ID: id, Account: assignment.Account, Why: assignment.Why}, fd)
}

// reportLimits takes over a reading of the account that the remote holds, and of no other.
func (s *Server) reportLimits(p *peer, r limitsReport) {
	s.mu.Lock()
	holds := p.held.Hold != "" && p.held.Hold == r.Account
	s.mu.Unlock()
	if holds {
		s.Limits(r.Account, r.RateLimits)
	}
}

// send bounds the time: a peer that does not read loses its connection.
func (p *peer) send(a answer, fd int) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if err := p.conn.SetWriteDeadline(time.Now().Add(writeBound)); err != nil {
		return err
	}
	return send(p.conn, a, fd)
}

// Tell notifies each remote if its next ask would get another account. other gets the last ask of a remote, with the
// account that it holds. A notified remote is not notified again before it has asked.
func (s *Server) Tell(other func(remote string, held Ask) bool) {
	s.mu.Lock()
	var untold []*peer
	for p := range s.peers {
		if p.held.Hold != "" && !p.told {
			untold = append(untold, p)
		}
	}
	s.mu.Unlock()
	for _, p := range untold {
		s.mu.Lock()
		held := p.held
		s.mu.Unlock()
		if !other(p.remote, held) {
			continue
		}
		s.mu.Lock()
		p.told = true
		s.mu.Unlock()
		go func() { // a peer that does not read delays no other
			if p.send(answer{Changed: true}, -1) != nil {
				_ = p.conn.Close()
			}
		}()
	}
}

// Holders are the remotes that hold each account, by the account.
func (s *Server) Holders() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	holders := map[string][]string{}
	for p := range s.peers {
		if account := p.held.Hold; account != "" && !slices.Contains(holders[account], p.remote) {
			holders[account] = append(holders[account], p.remote)
		}
	}
	for _, remotes := range holders {
		slices.Sort(remotes)
	}
	return holders
}
