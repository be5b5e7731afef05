// Package authz stands between the clients of a remote and its codex app-server: it relays WebSocket connections,
// decodes each message of a client, and passes on those that the client's role allows.
//
// The proxy does not contain a shell: each client has one, with the rights of the unit. It keeps the
// login and the configuration of the unit, and the pace of approvals of others, from its clients. A message that no
// rule allows is refused (see Methods), and the refusal names the reason, so that a TUI shows it and goes on.
//
// One direction is decoded, the other is copied. A message of a client is joined from its fragments, within bounds,
// because a JSON object can be judged only whole: its last member may be a second "method". Messages of codex are
// copied as they come; the proxy reads their beginnings, to recognise requests of codex, and sends its own answers
// between two messages.
package authz

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// headBound bounds the time from the accept of a connection to the end of its request for a WebSocket.
	headBound = 10 * time.Second
	// dialBound bounds the connect to codex, over a local socket.
	dialBound = 5 * time.Second
	// closeBound bounds the time in which a client reads why the proxy ends its connection.
	closeBound = 5 * time.Second
	// answerBound bounds the time in which codex answers a client that has gone, and Leaving returns.
	answerBound = 5 * time.Second
	// unsubscribeBound bounds Leaving before a thread/unsubscribe: a TUI waits 2 s for the answer.
	unsubscribeBound = time.Second
	// largeMessages is how many messages of more than smallMessage the proxy holds at a time.
	largeMessages = 2
	// clientBuffer is the size of each buffer of a client's bytes.
	clientBuffer = 64 << 10
)

// Proxy serves the connections of the clients of one remote. Its fields must not change once it serves; the zero
// value of each means none.
type Proxy struct {
	Remote  string       // its name, for the words of refusals
	Logger  *slog.Logger // nil discards
	Viewers string       // path of the socket of viewers; the clients of all others are owners
	Network string       // path of the socket on which codex-proxy connects clients of API keys; see NetworkHead
	Version string       // of codex-proxy, for the same
	Cgroup  string       // of the unit: its own processes may not attach, as a tool must not approve its own requests

	// Reads has the requests of the codex that runs that only read, with the names of their parameters: those that no
	// rule is on pass for owners, unless others of their family are refused. Nil: none.
	Reads map[string][]string

	// Open lets all requests and answers of clients pass, and all requests of codex: the proxy only follows.
	Open bool
	// Edit returns the parameters that replace the parameters of a request, or nil to leave them. It is called before
	// Forwarding.
	Edit func(Session, Request) []byte
	// Starting, if not nil, reports that codex does not serve yet: with the result by which the proxy answers an
	// initialize at once, nil if none is known, and a wait until codex serves. A nil wait means that codex serves.
	Starting func() (result json.RawMessage, wait func(context.Context) error)

	// Admit refuses a client by an error, which is the answer to its first request.
	Admit func(Peer, Role) error
	// Manager serves requests with a path below ManagerPath in place of codex: those that only read (GET) for all
	// clients, the others for owners. Renew is the path of those others that the daemon may make on Network, and Send
	// the one that a client of an API key may make there, as an owner.
	Manager     http.Handler
	Renew, Send string
	// Attached is called when a client has sent its first request, before that goes on, and Detached at the end of
	// its connection.
	Attached, Detached func(Session)
	// Forwarding is called before a request of a client goes on to codex, in the client's order. The client's
	// next message waits for it.
	Forwarding func(Session, Request)
	// Failed is called when codex answers a request of a client with an error, before the client reads it. The id is
	// the request's. Of an error of more than 2 KiB it may not be.
	Failed func(s Session, id string)
	// Unknown is called for a request that no rule is on, and returns the version of the codex that runs; empty: not
	// known.
	Unknown func(s Session, method string) (codex string)
	// Elsewhere serves the requests about commands and files in place of codex; nil: codex does.
	Elsewhere Elsewhere
	// Leaving is called when a client has gone and codex has answered all that it asked for, before codex learns of it,
	// and before a thread/unsubscribe. codex learns when Leaving has returned, which must be soon after the end of ctx.
	Leaving func(ctx context.Context)

	once        sync.Once
	large       chan struct{}
	viewerSlots chan struct{}
	last        atomic.Uint64 // id of a session

	mu              sync.Mutex
	owners, viewers int
}

// subject names the owner of the clients, for refusals.
func (p *Proxy) subject() string {
	if p.Open {
		return "the unit of " + p.Remote
	}
	return "the remote " + p.Remote
}

func (p *Proxy) init() {
	p.once.Do(func() {
		p.large = make(chan struct{}, largeMessages)
		p.viewerSlots = make(chan struct{}, viewerLimit)
		if p.Logger == nil {
			p.Logger = slog.New(slog.DiscardHandler)
		}
	})
}

// Count is how many owners and viewers are attached.
func (p *Proxy) Count() (owners, viewers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owners, p.viewers
}

func (p *Proxy) count(r Role, by int) (owners, viewers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r == Viewer {
		p.viewers += by
	} else {
		p.owners += by
	}
	return p.owners, p.viewers
}

func (p *Proxy) attach(s *clientConn) {
	s.Owners, s.Viewers = p.count(s.Role, 1)
	if p.Attached != nil {
		p.Attached(s.Session)
	}
}

func (p *Proxy) detach(s *clientConn, reason string) {
	if !s.attached.Load() {
		return
	}
	s.Owners, s.Viewers = p.count(s.Role, -1)
	if p.Detached != nil {
		p.Detached(s.end(reason))
	}
}

// Serve relays a connection to codex, which listens on the unix socket target, until one of the two has closed or ctx
// is done. It is the Serve of a notify.Relay. The error is a fault of this machine; a fault of a client is not.
func (p *Proxy) Serve(ctx context.Context, client *net.UnixConn, target string) error {
	p.init()
	s, err := p.identify(client)
	if err != nil {
		return err
	}
	leave, ok := p.acquireSlot(s, client)
	if !ok {
		return nil
	}
	defer func() { leave() }()
	in := bufio.NewReaderSize(client, clientBuffer)
	head, err := opening(client, in)
	if err != nil {
		return nil
	}
	if p.forManager(head) {
		return p.serveManager(ctx, s, client, io.MultiReader(bytes.NewReader(head), in))
	}
	up, err := parseUpgrade(head)
	if err != nil {
		_, _ = io.WriteString(client, plainAnswer(p)) // it may have gone
		return nil
	}
	if p.Network != "" && client.LocalAddr().String() == p.Network {
		if s.Key, s.Role = up.key, up.role; s.Role == Owner {
			leave() // now that it is known
			leave = func() {}
		}
	}
	if s.rejection != "" {
		p.reject(ctx, s, client, in, up)
		return nil
	}
	greeted, err := p.greet(ctx, client, in, &up)
	if err != nil {
		return nil // the client has gone, or codex has ended
	}
	s.greeted = greeted
	codex, err := p.dial(ctx, target)
	if err != nil && up.accepted {
		return err
	}
	if err != nil {
		s.rejection = fmt.Sprintf("codex of %s does not answer: %v", p.subject(), err)
		p.reject(ctx, s, client, in, up)
		return err
	}
	defer func() { _ = codex.Close() }()
	return p.connect(ctx, s, client, in, codex, up)
}

func (p *Proxy) dial(ctx context.Context, target string) (*net.UnixConn, error) {
	dialer := net.Dialer{Timeout: dialBound}
	conn, err := dialer.DialContext(ctx, "unix", target)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// identify finds out the user of a connection, and the role.
func (p *Proxy) identify(client *net.UnixConn) (*clientConn, error) {
	peer, err := peerOf(client)
	if err != nil {
		return nil, err
	}
	s := &clientConn{proxy: p, Session: Session{ID: p.last.Add(1), Peer: peer, Since: time.Now()}}
	// the head of the request on the latter may make an owner of it
	if path := client.LocalAddr().String(); path != "" && (path == p.Viewers || path == p.Network) {
		s.Role = Viewer
	}
	switch {
	case peer.within(p.Cgroup):
		s.rejection = fmt.Sprintf("%s takes no connection of its own processes", p.subject())
	case p.Admit != nil:
		if err := p.Admit(peer, s.Role); err != nil {
			s.rejection = err.Error()
		}
	}
	return s, nil
}

// opening reads the head of the first request.
func opening(client net.Conn, in *bufio.Reader) ([]byte, error) {
	if err := client.SetReadDeadline(time.Now().Add(headBound)); err != nil {
		return nil, err
	}
	head, err := readHead(in)
	if err != nil {
		return nil, err
	}
	return head, client.SetReadDeadline(time.Time{})
}

// reject answers the first request of a client with the reason why it may not attach.
func (p *Proxy) reject(ctx context.Context, s *clientConn, client *net.UnixConn, in *bufio.Reader, up upgrade) {
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	p.Logger.Warn("a client was refused", "user", s.User(), "pid", s.Peer.PID, "reason", s.rejection)
	if _, err := io.WriteString(client, up.accept()); err != nil {
		return
	}
	_ = client.SetReadDeadline(time.Now().Add(headBound)) // a closed connection fails at the next read
	answers := &clientWriter{conn: client}
	reading := p.inbound(s, client, in, io.Discard, answers)
	p.sendClose(client, answers, reading.run(ctx))
}

func (p *Proxy) inbound(s *clientConn, client net.Conn, in *bufio.Reader, codex io.Writer,
	answers *clientWriter) *inbound {
	return &inbound{client: in, codex: bufio.NewWriterSize(codex, clientBuffer), direct: codex, answers: answers,
		session:  s,
		deadline: client.SetReadDeadline, large: p.large}
}

// sendClose sends a client the reason for which the proxy ends its connection, and lets it read that.
func (p *Proxy) sendClose(client *net.UnixConn, answers *clientWriter, err error) {
	var reason *closed
	if !errors.As(err, &reason) {
		return
	}
	_ = client.SetWriteDeadline(time.Now().Add(closeBound))
	if answers.put(reason.frame()) != nil || client.CloseWrite() != nil {
		return
	}
	_ = client.SetReadDeadline(time.Now().Add(closeBound))
	_, _ = io.Copy(io.Discard, client) // the close of a socket with unread bytes would discard the reason
}

// connect opens the WebSocket at codex, and relays until one side has closed.
func (p *Proxy) connect(
	ctx context.Context, s *clientConn, client *net.UnixConn, in *bufio.Reader, codex *net.UnixConn, up upgrade,
) error {
	defer context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = codex.Close()
	})()
	if _, err := codex.Write(up.head); err != nil {
		return err
	}
	from := bufio.NewReader(codex) // outbound has a buffer of its own
	head, err := readHead(from)
	if err != nil {
		return fmt.Errorf("cannot open a WebSocket at codex: %w", err)
	}
	if err := agreed(head); err != nil {
		return err
	}
	if !up.accepted {
		if _, err := client.Write(head); err != nil {
			return nil
		}
	}
	p.detach(s, p.relay(ctx, s, client, in, codex, from))
	return nil
}

// relay returns the reason for the end.
func (p *Proxy) relay(
	ctx context.Context, s *clientConn, client *net.UnixConn, in *bufio.Reader, codex *net.UnixConn, from *bufio.Reader,
) (reason string) {
	var first sync.Once
	end := func(side string, err error) { first.Do(func() { reason = ending(side, err) }) }
	answers := &clientWriter{conn: client, gone: func(err error) {
		end("the client", err)
		_ = client.SetReadDeadline(time.Now().Add(closeBound)) // its earlier messages still go on
	}}
	copying := &outbound{codex: from, client: answers, role: s.Role, questions: &s.questions, all: p.Open,
		greeted: s.greeted,
		answered: func(failed []byte) {
			if failed != nil && p.Failed != nil {
				p.Failed(s.Session, string(failed))
			}
			s.open.add(-1)
		}}
	reading := p.inbound(s, client, in, codex, answers)
	reading.aside = newAside(ctx, p.Elsewhere, s, answers)
	defer reading.aside.close()
	copied, ended := context.WithCancel(context.Background())
	reading.stay = sync.OnceFunc(func() { s.stay(copied) })
	var both sync.WaitGroup
	both.Go(func() {
		err := reading.run(ctx)
		end("the client", err)
		p.sendClose(client, answers, err)
		reading.stay()
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			_ = codex.CloseWrite() // codex reads all messages of the client, and closes
			return
		}
		_ = codex.Close()
	})
	end("codex", copying.run())
	ended()
	_ = codex.Close()
	_ = client.CloseWrite()
	_ = client.SetReadDeadline(time.Now().Add(closeBound)) // its further messages are dropped
	both.Wait()
	return reason
}

// stay returns when codex has answered all that a client has asked for before its end, and Leaving has returned: codex
// drops unfinished requests when the connection closes, such as a person's message just before the terminal has ended.
// It returns early when codex ends, with which ctx does.
func (s *clientConn) stay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	select {
	case <-s.open.wait():
	case <-ctx.Done():
		return
	}
	if s.proxy.Leaving != nil {
		s.proxy.Leaving(ctx)
	}
}

// leaves is for a client that leaves a thread, after codex has all its messages.
func (s *clientConn) leaves(ctx context.Context) {
	if s.proxy.Leaving != nil {
		ctx, cancel := context.WithTimeout(ctx, unsubscribeBound)
		defer cancel()
		s.proxy.Leaving(ctx)
	}
}

// ending describes the end of a connection by the side that was the first to end it.
func ending(side string, err error) string {
	var reason *closed
	switch {
	case errors.As(err, &reason):
		return reason.reason
	case errors.Is(err, errClient):
		return "the client has closed"
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET):
		return side + " has closed"
	}
	return fmt.Sprintf("cut: %v", err)
}
