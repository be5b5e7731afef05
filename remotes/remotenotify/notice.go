// Package remotenotify passes on the events of a remote to the command of its [notify]: remote-exec sends a datagram
// to the socket of codex-remote-notify@NAME.socket, for which systemd starts `codex-proxy remote-notify`, which runs
// the command.
package remotenotify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/remotes"
)

// maxText bounds the text of a notice, in bytes.
const maxText = 4 << 10

// Notice is one event, as the command reads it from its standard input.
type Notice struct {
	Remote string    `json:"remote"`
	Event  string    `json:"event"` // one of events
	At     time.Time `json:"at"`
	Thread string    `json:"thread,omitempty"`
	Turn   string    `json:"turn,omitempty"`
	Status string    `json:"status,omitempty"` // of turn-ended: completed, failed or interrupted
	Text   string    `json:"text,omitempty"`   // the last words of the model, or the error
}

// events are the kinds for a person that is away.
var events = map[remotes.EventKind]string{
	remotes.TurnEnded:    "turn-ended",
	remotes.Waiting:      "approval-waiting",
	remotes.Asked:        "turn-cut",
	remotes.LimitReached: "turn-given-up",
	remotes.Exhausted:    "turn-out-of-quota",
}

// Of returns the notice of an event; false if somebody is there to see it, or nobody has to know.
func Of(remote string, e remotes.Event) (Notice, bool) {
	event, is := events[e.Kind]
	text := e.Detail
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") // the cut may be within a character
	}
	return Notice{Remote: remote, Event: event, At: e.At, Thread: e.Thread, Turn: e.Turn, Status: e.Status, Text: text},
		is && e.Alone
}

// errFull means that the service does not keep up.
var errFull = errors.New("too many wait already: the command takes too long")

// Send sends a notice to the socket at path. It does not wait: a notice for which there is no room is lost.
func Send(path string, n Notice) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	switch err := unix.Sendto(fd, text, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: path}); {
	case errors.Is(err, unix.EAGAIN):
		return errFull
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
