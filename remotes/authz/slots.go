package authz

import (
	"fmt"
	"io"
)

// viewerLimit bounds the connections of viewers, and of clients that may not attach, at a time. Without it they could
// take all connections of the relay, and no owner would get in.
const viewerLimit = 32

// acquireSlot takes a place for the connection of a guest, or refuses its client.
func (p *Proxy) acquireSlot(s *clientConn, client io.Writer) (leave func(), ok bool) {
	if s.Role == Owner && s.rejection == "" {
		return func() {}, true
	}
	select {
	case p.viewerSlots <- struct{}{}:
		return func() { <-p.viewerSlots }, true
	default:
		body := fmt.Sprintf("The remote %s has %d viewers, and takes no more: one of them has to leave.\n", p.Remote,
			viewerLimit)
		_, _ = fmt.Fprintf(client, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"+
			// it may have gone
			"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return nil, false
	}
}
