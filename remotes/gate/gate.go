package gate

import (
	"bufio"
	"bytes"
	"context"
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
	// farewellBound bounds the time in which a client reads why the gate ends its connection.
	farewellBound = 5 * time.Second
	// answerBound bounds the time in which codex answers a client that has gone, and Leaving returns.
	answerBound = 5 * time.Second
	// unsubscribeBound bounds Leaving before a thread/unsubscribe: a TUI waits 2 s for the answer.
	unsubscribeBound = time.Second
	// largeMessages is how many messages of more than smallMessage the gate holds at a time.
	largeMessages = 2
	// clientBuffer is the size of each buffer of a client's bytes.
	clientBuffer = 64 << 10
)

// Gate serves the connections of the clients of one remote. Its fields must not change once it serves; the zero
// value of each means none.
type Gate struct {
	Remote  string       // its name, for the words of refusals
	Logger  *slog.Logger // nil discards
	Viewers string       // path of the socket of viewers; the clients of all others are owners
	Network string       // path of the socket on which codex-proxy connects clients of API keys; see NetworkHead
	Cgroup  string       // of the unit: its own processes may not attach, as a tool must not approve its own requests

	// Admit refuses a client by an error, which is the answer to its first request.
	Admit func(Peer, Role) error
	// Keeper serves requests with a path below KeeperPath in place of codex: those that only read (GET) for all
	// clients, the others for owners.
	Keeper http.Handler
	// Attached is called when a client has sent its first request, before that goes on, and Detached at the end of
	// its connection.
	Attached, Detached func(Session)
	// Passing is called before a request of a client goes on to codex, in the client's order. The client's
	// next message waits for it.
	Passing func(Session, Request)
	// Failed is called when codex answers a request of a client with an error, before the client reads it. The id is
	// the request's. Of an error of more than 2 KiB it may not be.
	Failed func(s Session, id string)
	// Leaving is called when a client has gone and codex has answered all that it asked for, before codex learns of it,
	// and before a thread/unsubscribe. codex learns when Leaving has returned, which must be soon after the end of ctx.
	Leaving func(ctx context.Context)

	once   sync.Once
	large  chan struct{}
	guests chan struct{}
	last   atomic.Uint64 // id of a session

	mu              sync.Mutex
	owners, viewers int
}

func (g *Gate) init() {
	g.once.Do(func() {
		g.large = make(chan struct{}, largeMessages)
		g.guests = make(chan struct{}, guestLimit)
		if g.Logger == nil {
			g.Logger = slog.New(slog.DiscardHandler)
		}
	})
}

// Count is how many owners and viewers are attached.
func (g *Gate) Count() (owners, viewers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owners, g.viewers
}

func (g *Gate) count(r Role, by int) (owners, viewers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r == Viewer {
		g.viewers += by
	} else {
		g.owners += by
	}
	return g.owners, g.viewers
}

func (g *Gate) attach(s *session) {
	s.Owners, s.Viewers = g.count(s.Role, 1)
	if g.Attached != nil {
		g.Attached(s.Session)
	}
}

func (g *Gate) detach(s *session, reason string) {
	if !s.attached.Load() {
		return
	}
	s.Owners, s.Viewers = g.count(s.Role, -1)
	if g.Detached != nil {
		g.Detached(s.end(reason))
	}
}

// Serve relays a connection to codex, which listens on the unix socket target, until one of the two has closed or ctx
// is done. It is the Serve of a notify.Relay. The error is a fault of this machine; a fault of a client is not.
func (g *Gate) Serve(ctx context.Context, client *net.UnixConn, target string) error {
	g.init()
	s, err := g.meet(client)
	if err != nil {
		return err
	}
	leave, ok := g.seat(s, client)
	if !ok {
		return nil
	}
	defer func() { leave() }()
	in := bufio.NewReaderSize(client, clientBuffer)
	head, err := opening(client, in)
	if err != nil {
		return nil
	}
	if g.forKeeper(head) {
		return g.ask(ctx, s, client, io.MultiReader(bytes.NewReader(head), in))
	}
	up, err := parseUpgrade(head)
	if err != nil {
		_, _ = io.WriteString(client, plainAnswer(g.Remote)) // it may have gone
		return nil
	}
	if g.Network != "" && client.LocalAddr().String() == g.Network {
		if s.Key, s.Role = up.key, up.role; s.Role == Owner {
			leave() // now that it is known
			leave = func() {}
		}
	}
	if s.barred != "" {
		g.bar(ctx, s, client, in, up)
		return nil
	}
	codex, err := g.dial(ctx, target)
	if err != nil {
		s.barred = fmt.Sprintf("codex of the remote %s does not answer: %v", g.Remote, err)
		g.bar(ctx, s, client, in, up)
		return err
	}
	defer func() { _ = codex.Close() }()
	return g.connect(ctx, s, client, in, codex, up)
}

func (g *Gate) dial(ctx context.Context, target string) (*net.UnixConn, error) {
	dialer := net.Dialer{Timeout: dialBound}
	conn, err := dialer.DialContext(ctx, "unix", target)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// meet finds out the user of a connection, and the role.
func (g *Gate) meet(client *net.UnixConn) (*session, error) {
	peer, err := peerOf(client)
	if err != nil {
		return nil, err
	}
	s := &session{gate: g, Session: Session{ID: g.last.Add(1), Peer: peer, Since: time.Now()}}
	// the head of the request on the latter may make an owner of it
	if path := client.LocalAddr().String(); path != "" && (path == g.Viewers || path == g.Network) {
		s.Role = Viewer
	}
	switch {
	case peer.within(g.Cgroup):
		s.barred = fmt.Sprintf("the remote %s takes no connection of its own processes", g.Remote)
	case g.Admit != nil:
		if err := g.Admit(peer, s.Role); err != nil {
			s.barred = err.Error()
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

// bar answers the first request of a client with the reason why it may not attach.
func (g *Gate) bar(ctx context.Context, s *session, client *net.UnixConn, in *bufio.Reader, up upgrade) {
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	g.Logger.Warn("a client was refused", "user", s.User(), "pid", s.Peer.PID, "reason", s.barred)
	if _, err := io.WriteString(client, up.accept()); err != nil {
		return
	}
	_ = client.SetReadDeadline(time.Now().Add(headBound)) // a closed connection fails at the next read
	answers := &outlet{conn: client}
	reading := g.inbound(s, client, in, io.Discard, answers)
	g.farewell(client, answers, reading.run(ctx))
}

func (g *Gate) inbound(s *session, client net.Conn, in *bufio.Reader, codex io.Writer, answers *outlet) *inbound {
	return &inbound{client: in, codex: bufio.NewWriterSize(codex, clientBuffer), direct: codex, answers: answers,
		session:  s,
		deadline: client.SetReadDeadline, large: g.large}
}

// farewell sends a client the reason for which the gate ends its connection, and lets it read that.
func (g *Gate) farewell(client *net.UnixConn, answers *outlet, err error) {
	var reason *closed
	if !errors.As(err, &reason) {
		return
	}
	_ = client.SetWriteDeadline(time.Now().Add(farewellBound))
	if answers.put(reason.frame()) != nil || client.CloseWrite() != nil {
		return
	}
	_ = client.SetReadDeadline(time.Now().Add(farewellBound))
	_, _ = io.Copy(io.Discard, client) // the close of a socket with unread bytes would discard the reason
}

// connect opens the WebSocket at codex, and relays until one side has closed.
func (g *Gate) connect(
	ctx context.Context, s *session, client *net.UnixConn, in *bufio.Reader, codex *net.UnixConn, up upgrade,
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
	if _, err := client.Write(head); err != nil {
		return nil
	}
	g.detach(s, g.relay(ctx, s, client, in, codex, from))
	return nil
}

// relay returns the reason for the end.
func (g *Gate) relay(
	ctx context.Context, s *session, client *net.UnixConn, in *bufio.Reader, codex *net.UnixConn, from *bufio.Reader,
) (reason string) {
	var first sync.Once
	end := func(side string, err error) { first.Do(func() { reason = ending(side, err) }) }
	answers := &outlet{conn: client, gone: func(err error) {
		end("the client", err)
		_ = client.SetReadDeadline(time.Now().Add(farewellBound)) // its earlier messages still go on
	}}
	copying := &outbound{codex: from, client: answers, role: s.Role, questions: &s.questions,
		answered: func(failed []byte) {
			if failed != nil && g.Failed != nil {
				g.Failed(s.Session, string(failed))
			}
			s.open.add(-1)
		}}
	reading := g.inbound(s, client, in, codex, answers)
	copied, ended := context.WithCancel(context.Background())
	reading.stay = sync.OnceFunc(func() { s.stay(copied) })
	var both sync.WaitGroup
	both.Go(func() {
		err := reading.run(ctx)
		end("the client", err)
		g.farewell(client, answers, err)
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
	_ = client.SetReadDeadline(time.Now().Add(farewellBound)) // its further messages are dropped
	both.Wait()
	return reason
}

// stay returns when codex has answered all that a client has asked for before its end, and Leaving has returned: codex
// drops unfinished requests when the connection closes, such as the message of a person whose terminal has just ended.
// It returns early when codex ends, with which ctx does.
func (s *session) stay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	select {
	case <-s.open.wait():
	case <-ctx.Done():
		return
	}
	if s.gate.Leaving != nil {
		s.gate.Leaving(ctx)
	}
}

// leaves is for a client that leaves a thread, after codex has all its messages.
func (s *session) leaves(ctx context.Context) {
	if s.gate.Leaving != nil {
		ctx, cancel := context.WithTimeout(ctx, unsubscribeBound)
		defer cancel()
		s.gate.Leaving(ctx)
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
