package unitstest

import (
	"net"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

// link is one connection of the fake systemd. It reads its messages from the
// eavesdropping channel, because godbus would otherwise handle each call on a
// goroutine of its own. It ends when the socket is closed: godbus' Close would
// close that channel while the reader still writes to it.
type link struct {
	socket   net.Conn
	conn     *dbus.Conn
	messages chan *dbus.Message
	owned    chan struct{}
}

func newLink(t testing.TB, address string) *link {
	t.Helper()
	socket, err := net.Dial("unix", strings.TrimPrefix(address, "unix:path="))
	require.NoError(t, err)
	conn, err := dbus.NewConn(socket)
	require.NoError(t, err)
	require.NoError(t, conn.Auth(nil))
	require.NoError(t, conn.Hello())
	l := &link{socket, conn, make(chan *dbus.Message, 4096), make(chan struct{}, 1)}
	conn.Eavesdrop(l.messages)
	return l
}

// serve passes method calls to handle until the connection ends.
func (l *link) serve(handle func(*dbus.Message)) {
	for msg := range l.messages {
		switch {
		case msg.Type == dbus.TypeMethodCall:
			handle(msg)
		case header(msg, dbus.FieldMember) == "NameAcquired" && msg.Body[0] == managerName:
			l.owned <- struct{}{}
		}
	}
}

// own takes over systemd's name and returns when the bus has confirmed that.
func (l *link) own() {
	flags := dbus.NameFlagReplaceExisting | dbus.NameFlagAllowReplacement | dbus.NameFlagDoNotQueue
	call := callTo("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
		managerName, uint32(flags))
	call.Flags = dbus.FlagNoReplyExpected
	l.conn.Send(call, nil)
	select {
	case <-l.owned:
	case <-l.conn.Context().Done():
	}
}
