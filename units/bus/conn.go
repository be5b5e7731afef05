// Package bus talks to systemd over a private connection to the system bus (org.freedesktop.systemd1(5)).
//
// Every process on the bus may send a signal, by broadcast or to our own connection: a connection delivers no signal
// except from the current owner of org.freedesktop.systemd1.
package bus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/godbus/dbus/v5"
)

// ErrNoBus means that this machine has no system bus, as most containers: its
// socket doesn't exist.
var ErrNoBus = errors.New("there is no system bus here")

var (
	// ErrNoManager means that no systemd owns its name.
	ErrNoManager = errors.New("systemd is not on the bus")
	// ErrLost means that the bus has closed the connection.
	ErrLost = errors.New("the bus connection ended")
	errMute = errors.New("it does not answer")
)

const (
	// HelloTimeout bounds Connect, authentication and Hello; a bus with a policy that refuses us may not answer.
	HelloTimeout = 1500 * time.Millisecond
	// LastHelloTimeout is HelloTimeout for a caller that does not try again.
	LastHelloTimeout = 4 * time.Second
	// CallTimeout bounds one method call; a daemon-reload may occupy systemd for seconds.
	CallTimeout = 10 * time.Second

	// ManagerName is the name of systemd on the bus.
	ManagerName = "org.freedesktop.systemd1"
	// ManagerPath is its object.
	ManagerPath = "/org/freedesktop/systemd1"
	// ManagerIface is the interface of the object.
	ManagerIface = "org.freedesktop.systemd1.Manager"
)

// wire is the socket under a bus connection. godbus does not see a *net.UnixConn, so it never negotiates file
// descriptors: it doesn't close the ones in a stray signal, and any process may send us one.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func (w wire) Read(p []byte) (int, error) { return w.in.Read(p) }

// Write is bounded because godbus holds its lock while it writes, and its Close
// waits for that lock.
func (w wire) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(CallTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// Conn is one private connection to the system bus.
type Conn struct {
	conn   *dbus.Conn
	socket net.Conn
	from   *senderFilter
}

// Connect dials the system bus and calls Hello, within that time. It passes the signals of systemd
// to deliver, one at a time in the order of the wire, on the connection's reader:
// a reply is visible only after every signal that preceded it was delivered.
func Connect(ctx context.Context, within time.Duration, deliver func(*dbus.Signal)) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	socket, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	b := &Conn{socket: socket, from: newSenderFilter(deliver)}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	if err := b.hello(); err != nil {
		b.Close()
		if ctx.Err() != nil {
			err = errMute
		}
		return nil, fmt.Errorf("cannot greet the system bus: %v", err)
	}
	return b, nil
}

func dial(ctx context.Context) (net.Conn, error) {
	sockets, err := systemBusSockets()
	if err != nil {
		return nil, err
	}
	for _, name := range sockets {
		var socket net.Conn
		if socket, err = new(net.Dialer).DialContext(ctx, "unix", name); err == nil {
			return socket, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoBus, err)
	}
	return nil, fmt.Errorf("cannot reach the system bus: %w", err)
}

func (b *Conn) hello() (err error) {
	w := wire{Conn: b.socket, in: bufio.NewReader(b.socket)}
	if b.conn, err = dbus.NewConn(w, dbus.WithSignalHandler(b.from)); err != nil {
		return err
	}
	if err := b.conn.Auth(nil); err != nil {
		return err
	}
	return b.conn.Hello()
}

// Close closes the connection; no signal is delivered after it returned. It closes
// the socket first, which ends a write that godbus' Close would wait for.
func (b *Conn) Close() {
	b.from.close()
	_ = b.socket.Close()
	if b.conn != nil {
		_ = b.conn.Close()
	}
}

// Lost is closed when the connection has ended.
func (b *Conn) Lost() <-chan struct{} { return b.conn.Context().Done() }

// HasLost reports whether the connection has ended.
func (b *Conn) HasLost() bool {
	select {
	case <-b.Lost():
		return true
	default:
		return false
	}
}

// OwnerChanged has a token after systemd's name has another owner, or none.
func (b *Conn) OwnerChanged() <-chan struct{} { return b.from.changed }

// HasOwner reports whether systemd's name has an owner.
func (b *Conn) HasOwner() bool { return b.from.current() != "" }

// Match subscribes to the signals that rule describes.
func (b *Conn) Match(ctx context.Context, rule string) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	const add = "org.freedesktop.DBus.AddMatch"
	if err := b.conn.BusObject().CallWithContext(ctx, add, 0, rule).Err; err != nil {
		return fmt.Errorf("cannot ask the bus for signals: %w", err)
	}
	return nil
}

// FollowOwner learns which connection owns systemd's name, now and after each
// change, and asks systemd to emit signals to us.
func (b *Conn) FollowOwner(ctx context.Context) error {
	rule := "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus'," +
		"interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" + ManagerName + "'"
	if err := b.Match(ctx, rule); err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var owner string
	const get = "org.freedesktop.DBus.GetNameOwner"
	err := b.conn.BusObject().CallWithContext(callCtx, get, 0, ManagerName).Store(&owner)
	if IsError(err, "org.freedesktop.DBus.Error.NameHasNoOwner") {
		return ErrNoManager
	}
	if err != nil {
		return fmt.Errorf("cannot find systemd on the bus: %v", err)
	}
	b.from.startWith(owner)
	return b.Subscribe(ctx)
}

// Subscribe is needed once for each pair of our connection and systemd's.
func (b *Conn) Subscribe(ctx context.Context) error {
	err := b.Call(ctx, "Subscribe").Err
	if err == nil || IsError(err, "org.freedesktop.systemd1.AlreadySubscribed") {
		return nil
	}
	return fmt.Errorf("cannot subscribe to systemd: %v", err)
}

// Call calls a method of systemd's Manager object, bounded.
func (b *Conn) Call(ctx context.Context, method string, args ...any) *dbus.Call {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return b.conn.Object(ManagerName, ManagerPath).
		CallWithContext(ctx, ManagerIface+"."+method, dbus.FlagNoAutoStart, args...)
}
