// Package handshake connects to a codex app-server for one purpose.
package handshake

import (
	"context"

	"codex-proxy/codex/appserver"
)

// With passes a connection after its handshake to use, and returns the user agent
// that codex reports. The connection is new, since an old one would not prove that
// codex still accepts; a handshake costs codex half a millisecond. The client's
// name is the proxy's name, since codex may remember the first one for its
// upstream.
func With(ctx context.Context, socket, version string, use func(*appserver.Conn) error) (userAgent string, err error) {
	conn, err := appserver.Dial(ctx, socket, appserver.Options{ClientName: "codex-proxy", ClientVersion: version})
	if err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = conn.Run(context.WithoutCancel(ctx)) }()
	defer func() { conn.Close(nil); <-ended }()
	hello, err := conn.Initialize(ctx)
	if err != nil {
		return "", err
	}
	return hello.UserAgent, use(conn)
}
