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

// Relay joins sockets that the service manager made to the one that a command
// made for itself. So a socket can have an owner, a mode and a life of its own
// although the program behind it knows nothing of that.
//
// It accepts nothing before the command is ready: until then connections wait in
// the socket's backlog, where they also survive a restart of the command.
type Relay struct {
	Listeners []net.Listener // stream sockets; the relay closes them
	Target    string         // path of the command's unix socket
	Limit     int            // connections at a time; more wait in the backlog

	// Aside, if any, takes the connections that begin with AsidePrefix, which then
	// are not the command's. The relay closes them. Clients must be the first to
	// say something, then.
	Aside       func(net.Conn)
	AsidePrefix string
}

// dialBound is for the connection to the command. Its socket is local, so it
// either answers at once or has a full backlog.
const dialBound = 5 * time.Second

// acceptPause follows a failed accept, which is nearly always a lack of file
// descriptors that passes.
const acceptPause = 50 * time.Millisecond

// run serves until ctx is done, which means that the command has exited. It then
// gives the bytes that the command left behind flushBound to reach the clients,
// and returns when no connection is left.
func (r *Relay) run(ctx context.Context, logger *slog.Logger) {
	serving, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, func() {
		_ = r.Close()
		time.AfterFunc(flushBound, cut)
	})
	defer stop()

	places := make(chan struct{}, r.Limit)
	var work sync.WaitGroup
	for _, l := range r.Listeners {
		work.Go(func() { r.accept(ctx, serving, l, places, logger) })
	}
	work.Wait()
}

// Close closes the listeners.
func (r *Relay) Close() error {
	var errs []error
	for _, l := range r.Listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// accept returns when the listener is closed and its connections are done.
func (r *Relay) accept(ctx, serving context.Context, l net.Listener, places chan struct{}, logger *slog.Logger) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case places <- struct{}{}:
		}
		conn, err := l.Accept()
		if err != nil {
			<-places
			if errors.Is(err, net.ErrClosed) {
				return
			}
			logger.Warn("relay: cannot accept", "error", err)
			pause(ctx, acceptPause)
			continue
		}
		conns.Go(func() {
			defer func() { <-places }()
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

// halfConn is what a TCP and a unix stream connection have in common.
type halfConn interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// serve copies in both directions until both have ended or serving is done. What is
// aside ends with ctx, which is when the command has exited.
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

// isAside looks at how a connection begins, and takes nothing of it. A client that
// says nothing for dialBound is the command's.
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
		return n <= 0 || aside || string(beginning[:n]) != r.AsidePrefix[:n] // else the rest is on its way
	})
	return conn.SetReadDeadline(time.Time{}) == nil && aside
}

// pump copies until src has no more to give or dst takes no more, and hands that
// on, so that each end sees exactly what the other did: an end of input, a
// refusal of output, or both. Errors mean no more than that.
func pump(dst, src halfConn) {
	_, _ = io.Copy(dst, src)
	_ = dst.CloseWrite()
	if hungUp(src) {
		// What dst might still say would reach nobody: wake the other pump.
		_ = dst.CloseRead()
	}
	_ = src.CloseRead()
}

// hungUp tells a peer that has gone from one that only finished writing.
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
