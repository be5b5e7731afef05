package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"codex-proxy/console/deliver"
	"codex-proxy/console/push"
	"codex-proxy/console/webpush"
	"codex-proxy/daemon/config"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/auth"
	"codex-proxy/remotes/remotenotify"
	"codex-proxy/workers/control"
)

// newPusher has its files in dir, with the secret of sessions.
func newPusher(client *control.Client, dir string, from *configFlags, logger *slog.Logger) (*push.Pusher, error) {
	key, err := webpush.LoadKey(filepath.Join(dir, "push-key"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the key of pushes: %w", err)
	}
	store, err := push.OpenStore(filepath.Join(dir, "push.json"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the browsers that get pushes: %w", err)
	}
	origins, _ := from.consoleOrigins() // a page without an address has no browsers
	return push.New(push.Settings{Store: store, Key: key, Contact: contact(origins), Ask: client.ConsoleKey,
		Remote: pushRemote, Deliver: deliver.NewClient(paths.FetchSocket).Deliver,
		Count: func(ctx context.Context, outcome string) {
			_ = client.CountPush(ctx, outcome) // a daemon that starts counts from 0
		}, Logger: logger}), nil
}

// consoleOrigins are the addresses of the page.
func (c *configFlags) consoleOrigins() ([]string, error) {
	console, err := config.LoadConsole(c.path, c.set)
	if err != nil {
		return nil, err
	}
	return console.Origins, nil
}

// contact is the address that push services see.
func contact(origins []string) string {
	for _, origin := range origins {
		if strings.HasPrefix(origin, "https://") {
			return origin
		}
	}
	return ""
}

// noticesFor takes the notices of remotes, each on a connection of its own, from the main process of that remote alone.
func noticesFor(client *control.Client, pusher *push.Pusher, logger *slog.Logger) func(context.Context, net.Conn) {
	return func(ctx context.Context, conn net.Conn) {
		n, err := remotenotify.Receive(conn)
		var sender string
		var pid int32
		if err == nil {
			pid, err = remotenotify.Sender(conn)
		}
		if err == nil {
			sender, err = client.RemoteOf(ctx, pid)
		}
		if err == nil && sender != n.Remote {
			err = fmt.Errorf("it is of another remote, %s", sender)
		}
		if err != nil {
			logger.Warn("a notice for browsers is refused", "error", err)
			return
		}
		pusher.Notice(ctx, push.Notice{Remote: n.Remote, Event: n.Event, Thread: n.Thread, Status: n.Status, Text: n.Text})
	}
}

// pushRemote is a remote for a person with a key: nil if the person only watches.
func pushRemote(key control.ConsoleKey, name string) (push.Remote, error) {
	of, err := keyedRemote(key)(name)
	if err != nil {
		return nil, err
	}
	if owner, is := of.(person); is && key.Right == auth.Operate {
		return asked{owner}, nil
	}
	return nil, nil
}

// asked is a push.Remote.
type asked struct{ person }

// Asked implements push.Remote.
func (a asked) Asked(ctx context.Context, thread string) (all []push.Question, err error) {
	questions, err := a.Remote.Asked(ctx, thread)
	for _, q := range questions {
		all = append(all, push.Question{ID: q.ID, Kind: q.Kind, Text: q.Text, Directory: q.Directory, Decisions: q.Decisions})
	}
	return all, err
}
