// Package ports forwards ports of sessions: it relays connections between TCP and streams of the API, at both ends of
// these, and listens for the clients of a port.
package ports

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Mapping is a port of this host and the port of a session that it stands for.
type Mapping struct {
	Local  uint16 // 0 is any that is free
	Remote uint16
}

// Parse reads LOCAL:REMOTE, or REMOTE, which is both.
func Parse(text string) (Mapping, error) {
	local, remote, two := strings.Cut(text, ":")
	if !two {
		remote = local
	}
	to, err := strconv.ParseUint(remote, 10, 16)
	if err != nil || to == 0 {
		return Mapping{}, errors.New("want PORT or LOCAL:PORT, such as 8080 or 3000:8080, with ports of 1 to 65535")
	}
	from, err := strconv.ParseUint(local, 10, 16)
	if err != nil {
		return Mapping{}, errors.New("want a LOCAL port of 0 to 65535; 0 is any that is free")
	}
	return Mapping{Local: uint16(from), Remote: uint16(to)}, nil
}

// loopback is the address that clients connect to.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// address is the address of the local port.
func (m Mapping) address() string { return netip.AddrPortFrom(loopback, m.Local).String() }

// Line says for people where the port of a session is.
func (m Mapping) Line(session string) string {
	return fmt.Sprintf("http://%s -> port %d of session %s", m.address(), m.Remote, session)
}
