package units

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
	errNoManager = errors.New("systemd is not on the bus")
	errBusLost   = errors.New("the bus connection ended")
	errMute      = errors.New("it does not answer")
)

const (
	// helloTimeout bounds connect, authentication and Hello; a bus with a policy that refuses us may not answer.
	helloTimeout = 1500 * time.Millisecond
	// lastHelloTimeout is helloTimeout for a caller that does not try again.
	lastHelloTimeout = 4 * time.Second
	// callTimeout bounds one method call; a daemon-reload may occupy systemd for seconds.
	callTimeout = 10 * time.Second

	managerName  = "org.freedesktop.systemd1"
	managerPath  = "/org/freedesktop/systemd1"
	managerIface = "org.freedesktop.systemd1.Manager"
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
	if err := w.SetWriteDeadline(time.Now().Add(callTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// bus is one private connection to the system bus.
type bus struct {
	conn   *dbus.Conn
	socket net.Conn
	from   *senderFilter
}

// connect dials the system bus and calls Hello, within that time. It passes the signals of systemd
// to deliver, one at a time in the order of the wire, on the connection's reader:
// a reply is visible only after every signal that preceded it was delivered.
func connect(ctx context.Context, within time.Duration, deliver func(*dbus.Signal)) (*bus, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	socket, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	b := &bus{socket: socket, from: newSenderFilter(deliver)}
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	if err := b.hello(); err != nil {
		b.close()
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

func (b *bus) hello() (err error) {
	w := wire{Conn: b.socket, in: bufio.NewReader(b.socket)}
	if b.conn, err = dbus.NewConn(w, dbus.WithSignalHandler(b.from)); err != nil {
		return err
	}
	if err := b.conn.Auth(nil); err != nil {
		return err
	}
	return b.conn.Hello()
}

// close closes the connection; no signal is delivered after it returned. It closes
// the socket first, which ends a write that godbus' Close would wait for.
func (b *bus) close() {
	b.from.close()
	_ = b.socket.Close()
	if b.conn != nil {
		_ = b.conn.Close()
	}
}

// lost is closed when the connection has ended.
func (b *bus) lost() <-chan struct{} { return b.conn.Context().Done() }

func (b *bus) hasLost() bool {
	select {
	case <-b.lost():
		return true
	default:
		return false
	}
}

// match subscribes to the signals that rule describes.
func (b *bus) match(ctx context.Context, rule string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const add = "org.freedesktop.DBus.AddMatch"
	if err := b.conn.BusObject().CallWithContext(ctx, add, 0, rule).Err; err != nil {
		return fmt.Errorf("cannot ask the bus for signals: %w", err)
	}
	return nil
}

// followOwner learns which connection owns systemd's name, now and after each
// change, and asks systemd to emit signals to us.
func (b *bus) followOwner(ctx context.Context) error {
	rule := "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus'," +
		"interface='org.freedesktop.DBus',member='NameOwnerChanged',arg0='" + managerName + "'"
	if err := b.match(ctx, rule); err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var owner string
	const get = "org.freedesktop.DBus.GetNameOwner"
	err := b.conn.BusObject().CallWithContext(callCtx, get, 0, managerName).Store(&owner)
	if isError(err, "org.freedesktop.DBus.Error.NameHasNoOwner") {
		return errNoManager
	}
	if err != nil {
		return fmt.Errorf("cannot find systemd on the bus: %v", err)
	}
	b.from.startWith(owner)
	return b.subscribe(ctx)
}

// reportJobs has systemd report the ends of jobs.
func (b *bus) reportJobs(ctx context.Context) error {
	if err := b.match(ctx, jobRemovedRule); err != nil {
		return err
	}
	return b.followOwner(ctx)
}

// subscribe is needed once for each pair of our connection and systemd's.
func (b *bus) subscribe(ctx context.Context) error {
	err := b.manager(ctx, "Subscribe").Err
	if err == nil || isError(err, "org.freedesktop.systemd1.AlreadySubscribed") {
		return nil
	}
	return fmt.Errorf("cannot subscribe to systemd: %v", err)
}

// manager calls a method of systemd's Manager object, bounded.
func (b *bus) manager(ctx context.Context, method string, args ...any) *dbus.Call {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return b.conn.Object(managerName, managerPath).
		CallWithContext(ctx, managerIface+"."+method, dbus.FlagNoAutoStart, args...)
}

// isError reports whether err is a D-Bus error of one of these names.
func isError(err error, names ...string) bool {
	var e dbus.Error
	if !errors.As(err, &e) {
		return false
	}
	for _, name := range names {
		if e.Name == name {
			return true
		}
	}
	return false
}
