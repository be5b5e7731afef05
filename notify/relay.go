package notify

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Relay connects the clients of sockets of the service manager to the socket of a
// command. The service manager so sets the owner, the mode and the lifetime of the
// socket for a program that cannot inherit one.
//
// It accepts no connection before the command is ready, unless Early is set: until then
// connections wait in the socket's backlog, where they also survive a restart of the
// command.
type Relay struct {
	Listeners []net.Listener // stream sockets; the relay closes them
	Target    string         // path of the command's unix socket
	Limit     int            // connections at a time; more wait in the backlog

	// Early accepts connections from the start of the command on: Serve waits for it.
	Early bool

	// Aside, if not nil, serves the connections that begin with AsidePrefix in place
	// of the command. The relay closes them. Clients must then be the first to send
	// bytes.
	Aside       func(net.Conn)
	AsidePrefix string

	// Serve, if not nil, serves the other connections, with a connection of its own to
	// target, in place of the copy of bytes. The relay closes client when it returns.
	// ctx ends when the command has exited and its last bytes had their time.
	Serve func(ctx context.Context, client *net.UnixConn, target string) error
}

// dialBound bounds the connect to the command. Its socket is local, so it either
// answers at once or has a full backlog.
const dialBound = 5 * time.Second

// acceptPause follows a failed accept, which nearly always means a temporary lack of file descriptors.
const acceptPause = 50 * time.Millisecond

// Run serves until ctx is done, which means that the command has exited. It then
// delivers the command's last bytes to the clients for up to flushBound, and returns
// when no connection is left.
func (r *Relay) Run(ctx context.Context, logger *slog.Logger) {
	serving, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, func() {
		_ = r.Close()
		time.AfterFunc(flushBound, cut)
	})
	defer stop()

	slots := make(chan struct{}, r.Limit)
	var work sync.WaitGroup
	for _, l := range r.Listeners {
		work.Go(func() { r.accept(ctx, serving, l, slots, logger) })
	}
	work.Wait()
}

// Close closes the listeners. A connection that is made after it waits in the socket's
// backlog for the next relay. A nil Relay has none.
func (r *Relay) Close() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, l := range r.Listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// accept returns when the listener is closed and its connections have ended.
func (r *Relay) accept(ctx, serving context.Context, l net.Listener, slots chan struct{}, logger *slog.Logger) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		conn, err := l.Accept()
		if err != nil {
			<-slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			logger.Warn("relay: cannot accept", "error", err)
			pause(ctx, acceptPause)
			continue
		}
		conns.Go(func() {
			defer func() { <-slots }()
			if err := r.serve(ctx, serving, conn); err != nil {
				logger.Warn("relay: connection dropped", "error", err)
			}
		})
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// halfConn is a TCP or unix stream connection.
type halfConn interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// serve copies in both directions until both have ended or serving is done. A
// connection of Aside ends with ctx, which means that the command has exited.
func (r *Relay) serve(ctx, serving context.Context, accepted net.Conn) error {
	defer accepted.Close()
	client, ok := accepted.(halfConn)
	if !ok {
		return errors.New("cannot relay " + accepted.LocalAddr().Network() + " sockets, only streams")
	}
	if r.Aside != nil {
		stop := context.AfterFunc(ctx, func() { _ = client.Close() })
		defer stop()
		if r.isAside(client) {
			r.Aside(client)
			return nil
		}
		stop()
	}
	if r.Serve != nil {
		return r.serveBy(serving, client)
	}
	dialer := net.Dialer{Timeout: dialBound}
	dialled, err := dialer.DialContext(serving, "unix", r.Target)
	if err != nil {
		return err
	}
	defer dialled.Close()
	target := dialled.(*net.UnixConn)
	defer context.AfterFunc(serving, func() {
		_ = client.Close()
		_ = target.Close()
	})()

	var up sync.WaitGroup
	up.Go(func() { pump(target, client) })
	pump(client, target)
	up.Wait()
	return nil
}

func (r *Relay) serveBy(ctx context.Context, accepted halfConn) error {
	client, ok := accepted.(*net.UnixConn)
	if !ok {
		return errors.New("cannot serve " + accepted.LocalAddr().Network() + " sockets, only unix ones")
	}
	return r.Serve(ctx, client, r.Target)
}

// isAside compares the first bytes of a connection with AsidePrefix, without
// consuming them. A client that sends nothing for dialBound goes to the command.
func (r *Relay) isAside(conn halfConn) (aside bool) {
	raw, err := conn.SyscallConn()
	if err != nil || conn.SetReadDeadline(time.Now().Add(dialBound)) != nil {
		return false
	}
	beginning := make([]byte, len(r.AsidePrefix))
	_ = raw.Read(func(fd uintptr) (done bool) {
		n, _, err := unix.Recvfrom(int(fd), beginning, unix.MSG_PEEK)
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		aside = n == len(beginning) && string(beginning) == r.AsidePrefix
		return n <= 0 || aside || string(beginning[:n]) != r.AsidePrefix[:n] // else wait for the rest
	})
	return conn.SetReadDeadline(time.Time{}) == nil && aside
}

// pump copies until src ends or dst accepts no more, and passes that on, so that
// each end sees the close of the other: an end of input, a refusal of output, or
// both. Errors mean no more than that.
func pump(dst, src halfConn) {
	_, _ = io.Copy(dst, src)
	_ = dst.CloseWrite()
	if hungUp(src) {
		// More output of dst would have no reader: wake the other pump.
		_ = dst.CloseRead()
	}
	_ = src.CloseRead()
}

// hungUp distinguishes a peer that has closed from one that only finished writing.
func hungUp(conn syscall.Conn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		_, _ = unix.Poll(fds, 0)
		gone = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
