package gate

import (
	"fmt"
	"io"
)

// guestLimit bounds the connections of viewers, and of clients that may not attach, at a time. Without it they could
// take all connections of the relay, and no owner would get in.
const guestLimit = 32

// seat takes a place for the connection of a guest, or refuses its client.
func (g *Gate) seat(s *session, client io.Writer) (leave func(), ok bool) {
	if s.Role == Owner && s.barred == "" {
		return func() {}, true
	}
	select {
	case g.guests <- struct{}{}:
		return func() { <-g.guests }, true
	default:
		body := fmt.Sprintf("The remote %s has %d viewers, and takes no more: one of them has to leave.\n", g.Remote,
			guestLimit)
		_, _ = fmt.Fprintf(client, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"+
			// it may have gone
			"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return nil, false
	}
}
