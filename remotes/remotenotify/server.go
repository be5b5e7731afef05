package remotenotify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/notify"
	"codex-proxy/remotes/remoteconfig"
)

const (
	// commandBound bounds one run of the command.
	commandBound = 30 * time.Second
	// linger is how long the service waits for the next notice before it ends. systemd starts it again then.
	linger = 5 * time.Second
	// maxNotice bounds a datagram.
	maxNotice = 64 << 10
)

// Server runs the command of [notify] for each notice, one after the other. The kernel's queue of the socket bounds
// those that wait.
type Server struct {
	File   string       // of the remote
	Hash   string       // of the file that systemd has read
	Socket *os.File     // of the notices
	UID    int          // of the user of the remote, which may send notices
	Logger *slog.Logger // with the remote
}

// Run serves until ctx ends or notices stay away. A notice with a command that cannot run is a line in the journal: if
// it stayed in the socket, systemd would start the service for it again and again.
func (s *Server) Run(ctx context.Context) error {
	conn, err := net.FilePacketConn(s.Socket)
	if err != nil {
		return fmt.Errorf("standard input is not the socket of the notices (StandardInput=socket): %w", err)
	}
	defer func() { _ = conn.Close() }()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("standard input is not the socket of the notices (StandardInput=socket), but %T", conn)
	}
	defer context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Now()) })()
	for {
		notice, err := s.next(socket)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
		if err := s.serve(ctx, notice); err != nil && ctx.Err() == nil {
			s.Logger.Warn("the command of [notify] has failed", "error", err, "event", notice.Event,
				"thread_id", notice.Thread, "turn_id", notice.Turn)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// next waits for a notice of the remote's user.
func (s *Server) next(socket *net.UnixConn) (n Notice, err error) {
	buffer, oob := make([]byte, maxNotice), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		if err := socket.SetReadDeadline(time.Now().Add(linger)); err != nil {
			return n, err
		}
		length, had, _, _, err := socket.ReadMsgUnix(buffer, oob)
		if err != nil {
			return n, err
		}
		uid, err := sender(oob[:had])
		switch {
		case err != nil:
			return n, err
		case uid != s.UID:
			s.Logger.Warn("a notice is refused: another user has sent it", "uid", uid)
		case json.Unmarshal(buffer[:length], &n) != nil:
			s.Logger.Warn("a notice is refused: it does not parse")
		default:
			return n, nil
		}
	}
}

// sender is the user of the process that has sent a datagram, as the kernel reports it (SO_PASSCRED of unix(7)).
func sender(oob []byte) (uid int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return 0, errors.Join(errors.New("the kernel does not say who sends: the socket needs PassCredentials=yes"),
			err)
	}
	c, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, err
	}
	return int(c.Uid), nil
}

// serve runs the command for one notice.
func (s *Server) serve(ctx context.Context, n Notice) error {
	settings, err := remoteconfig.Load(s.File)
	switch {
	case err != nil:
		return err
	case settings.Hash != s.Hash:
		return fmt.Errorf("systemd has not read %s since its last change: systemctl daemon-reload", s.File)
	case len(settings.Notify) == 0:
		return nil
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandBound, fmt.Errorf("it did not end within %s", commandBound))
	defer cancel()
	return notify.Run(ctx, settings.Notify, append(text, '\n'), n.environment()...)
}

// environment are the variables of the command.
func (n Notice) environment() (all []string) {
	for _, v := range [][2]string{{"NAME", n.Remote}, {"EVENT", n.Event}, {"THREAD", n.Thread}, {"TURN", n.Turn},
		{"STATUS", n.Status}, {"TEXT", n.Text}} {
		all = append(all, "CODEX_REMOTE_"+v[0]+"="+strings.ReplaceAll(v[1], "\x00", ""))
	}
	return all
}
