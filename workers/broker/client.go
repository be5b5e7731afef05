package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	minPause = 50 * time.Millisecond // between two dials
	maxPause = 2 * time.Second
	// loginBound is how long a worker may take to send its login: it may have to start first.
	loginBound = 40 * time.Second
	writeBound = 5 * time.Second
)

// Grant is an account that serves now.
type Grant struct {
	Account string
	// Why is why it is another one than Ask.Hold, for people; empty if it is the same.
	Why string
	// Login is the account's. Kept means no new login: the remote keeps the one that it has.
	Login Login
	Kept  bool
}

// Client asks the service. Its methods are safe for concurrent use.
type Client struct {
	path    string
	changed chan struct{}
	wanted  chan struct{} // has a token when a question waits for a connection

	mu      sync.Mutex
	link    *connection   // nil: not connected
	ready   chan struct{} // closed when link is set
	waiting int           // questions that wait for a connection
	why     error         // why the login is missing
	last    uint64
}

// connection is one connection.
type connection struct {
	conn *net.UnixConn
	done chan struct{} // closed at the end
	// useful means that the service has answered something. It is for Run alone.
	useful bool

	mu      sync.Mutex
	waiting map[uint64]chan<- arrived
}

type arrived struct {
	answer
	file *os.File // the connection to a worker; nil: none
}

// NewClient makes a client of the socket at path. Run connects it.
func NewClient(path string) *Client {
	return &Client{
		path: path, changed: make(chan struct{}, 1), wanted: make(chan struct{}, 1), ready: make(chan struct{}),
	}
}

// Changed has a token when the account that serves may be another one now. The remote then asks again, between two
// turns.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// Run connects for the first question, and again for the first one after the end of a connection, until ctx ends. No
// other dial is made, as one starts a service that an operator has stopped. A dial while the service restarts waits in
// the socket of systemd.
func (c *Client) Run(ctx context.Context) {
	for {
		select {
		case <-c.wanted:
		case <-ctx.Done():
			return
		}
		for pause := minPause; c.awaited(); pause = min(2*pause, maxPause) {
			l, err := c.connect(ctx)
			if err == nil {
				if err = c.serve(ctx, l); l.useful {
					pause = minPause
				}
			}
			c.mu.Lock()
			c.why = err
			c.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}
}

func (c *Client) awaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting > 0 && c.link == nil
}

func (c *Client) poke() {
	select {
	case c.changed <- struct{}{}:
	default: // the token that is there covers this, too
	}
}

// connect dials, and identifies this process to the service.
func (c *Client) connect(ctx context.Context) (*connection, error) {
	dialed, err := (&net.Dialer{}).DialContext(ctx, "unixpacket", c.path)
	if err != nil {
		return nil, err
	}
	conn := dialed.(*net.UnixConn)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var hello answer
	_, err = receive(conn, make([]byte, maxMessage), nil, &hello)
	switch {
	case err == nil && hello.Error != nil:
		err = hello.Error
	case err == nil:
		err = send(conn, request{Hello: hello.Hello}, -1)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &connection{conn: conn, done: make(chan struct{}), waiting: map[uint64]chan<- arrived{}}, nil
}

// serve reads the answers until the connection ends.
func (c *Client) serve(ctx context.Context, l *connection) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	defer stop()
	c.mu.Lock()
	c.link = l
	close(c.ready)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.link, c.ready = nil, make(chan struct{})
		c.mu.Unlock()
		_ = l.conn.Close()
		close(l.done)
	}()
	buffer, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	for {
		var a answer
		ancillary, err := receive(l.conn, buffer, oob, &a)
		file := descriptor(ancillary)
		if err == nil && a.ID == 0 && a.Error != nil {
			err = a.Error
		}
		if err != nil {
			closeFile(file)
			return err
		}
		l.useful = true
		if a.Changed {
			c.poke()
		}
		l.deliver(arrived{a, file})
	}
}

// deliver passes an answer on to its question. Nobody may wait for it any more.
func (l *connection) deliver(a arrived) {
	l.mu.Lock()
	to := l.waiting[a.ID]
	delete(l.waiting, a.ID)
	l.mu.Unlock()
	if to == nil {
		closeFile(a.file)
		return
	}
	to <- a // it has room
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}

// descriptor is the first one of ancillary data; nil without one.
func descriptor(ancillary []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(ancillary)
	if err != nil {
		return nil
	}
	var first *os.File
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			if first != nil {
				_ = unix.Close(fd)
				continue
			}
			_ = unix.SetNonblock(fd, true)
			first = os.NewFile(uintptr(fd), "worker")
		}
	}
	return first
}

// Acquire asks which account serves now, and gets its login. A connection that is cut meanwhile is made again, and a
// service that does not run is waited for: ctx bounds that. If the chosen account sends no login, the next one does.
// The error is an *Error if the service has answered.
func (c *Client) Acquire(ctx context.Context, ask Ask) (Grant, error) {
	var failed error // why an account has sent no login
	for {
		a, err := c.ask(ctx, ask)
		if err != nil {
			return Grant{}, errors.Join(failed, err)
		}
		if a.Error != nil {
			if failed != nil && (a.Error.Code == NoAccount || a.Error.Code == Unavailable) {
				return Grant{}, failed
			}
			return Grant{}, a.Error
		}
		g := Grant{Account: a.Account, Why: a.Why}
		if a.file == nil {
			g.Kept = true
			return g, nil
		}
		if g.Login, err = c.read(ctx, a.file); err == nil {
			return g, nil
		}
		if ctx.Err() != nil {
			return Grant{}, context.Cause(ctx)
		}
		e := &Error{Code: Unavailable, Message: err.Error()}
		_ = errors.As(err, &e)
		failed = &Error{Code: e.Code, Message: fmt.Sprintf("account %s: %s", a.Account, e.Message), RetryAt: e.RetryAt}
		if slices.Contains(ask.Avoid, a.Account) { // the service has no other
			return Grant{}, failed
		}
		if ask.Refused == Unauthorized && a.Account == ask.Hold { // a login that is refused causes no rotation
			return Grant{}, failed
		}
		ask.Avoid = append(slices.Clip(ask.Avoid), a.Account)
	}
}

// read reads a login, until ctx ends.
func (c *Client) read(ctx context.Context, file *os.File) (Login, error) {
	within := loginBound
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline))
	}
	type result struct {
		login Login
		err   error
	}
	done := make(chan result, 1)
	go func() {
		login, err := readLogin(file, within)
		done <- result{login, err}
	}()
	select {
	case r := <-done:
		return r.login, r.err
	case <-ctx.Done(): // the read ends within its bound
		return Login{}, context.Cause(ctx)
	}
}

// connected returns the connection, once there is one, and the number of a new question.
func (c *Client) connected(ctx context.Context) (*connection, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := c.last
	c.waiting++
	defer func() { c.waiting-- }()
	for c.link == nil {
		ready := c.ready
		c.mu.Unlock()
		select {
		case c.wanted <- struct{}{}:
		default:
		}
		select {
		case <-ready:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return nil, 0, c.silence(ctx)
		}
	}
	return c.link, id, nil
}

// ask sends the question, again if the connection is cut before the answer.
func (c *Client) ask(ctx context.Context, ask Ask) (arrived, error) {
	for {
		l, id, err := c.connected(ctx)
		if err != nil {
			return arrived{}, err
		}
		answered := make(chan arrived, 1)
		l.mu.Lock()
		l.waiting[id] = answered
		l.mu.Unlock()
		if err := l.send(request{ID: id, Lease: &ask}); err != nil {
			if !l.ended(err) {
				return arrived{}, err
			}
		}
		select {
		case a := <-answered:
			return a, nil
		case <-l.done:
		case <-ctx.Done():
			l.mu.Lock()
			delete(l.waiting, id)
			l.mu.Unlock()
			select {
			case a := <-answered: // it arrived meanwhile
				closeFile(a.file)
			default:
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			return arrived{}, c.silence(ctx)
		}
	}
}

// silence is the error of a question that was not answered before the end of ctx. It is under the lock.
func (c *Client) silence(ctx context.Context) error {
	if c.why != nil {
		return fmt.Errorf("codex-proxy.service does not answer: %w (%w)", c.why, context.Cause(ctx))
	}
	return fmt.Errorf("codex-proxy.service does not answer: %w", context.Cause(ctx))
}

// ended reports whether err is the end of the connection, and makes sure of it.
func (l *connection) ended(err error) bool {
	var syscallErr *net.OpError
	if !errors.As(err, &syscallErr) && !errors.Is(err, io.EOF) {
		return false
	}
	_ = l.conn.Close()
	return true
}

func (l *connection) send(r request) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(writeBound)); err != nil {
		return err
	}
	return send(l.conn, r, -1)
}

// ReportLimits sends the service codex's report of the account's limits, the object rateLimits of
// account/rateLimits/updated. Without a connection it is lost: the next one has all.
func (c *Client) ReportLimits(account string, limits json.RawMessage) {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil {
		_ = l.send(request{Reading: &limitsReport{account, limits}})
	}
}
