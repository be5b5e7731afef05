package authz

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// ManagerPath begins the paths of the manager.
const ManagerPath = "/keeper/"

// askBound bounds the time in which a client sends the body of a request to the manager.
const askBound = 30 * time.Second

func (p *Proxy) forManager(head []byte) bool {
	_, path, _ := bytes.Cut(head[:bytes.IndexByte(head, '\n')], []byte(" "))
	return p.Manager != nil && bytes.HasPrefix(path, []byte(ManagerPath))
}

// serveManager serves one request to the manager.
func (p *Proxy) serveManager(ctx context.Context, s *clientConn, client *net.UnixConn, in io.Reader) error {
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	_ = client.SetReadDeadline(time.Now().Add(askBound)) // a closed connection fails at the next read
	r, err := http.ReadRequest(bufio.NewReader(in))
	if err != nil {
		return nil // its client has made a mistake, or gone
	}
	a := answer{header: http.Header{}, status: http.StatusOK}
	switch {
	case s.rejection != "" && (s.Peer.UID != 0 || s.Peer.within(p.Cgroup)): // root may ask about all
		http.Error(&a, s.rejection, http.StatusForbidden)
	case s.Role == Viewer && r.Method != http.MethodGet && r.Method != http.MethodHead && !p.byNetwork(client, r):
		http.Error(&a, "this socket only reads", http.StatusForbidden)
	default:
		p.Manager.ServeHTTP(&a, r.WithContext(ctx))
	}
	resp := http.Response{StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Header: a.header, Request: r, Close: true,
		ContentLength: int64(a.body.Len()), Body: io.NopCloser(&a.body)}
	_ = resp.Write(client) // it may have gone
	return nil
}

// byNetwork reports whether a request is one for the network socket, to which the user of the daemon alone connects:
// the daemon's own, or a message of a person with a key in the role of an owner.
func (p *Proxy) byNetwork(client *net.UnixConn, r *http.Request) bool {
	if p.Network == "" || client.LocalAddr().String() != p.Network {
		return false
	}
	return p.Renew != "" && r.URL.Path == p.Renew ||
		p.Send != "" && r.URL.Path == p.Send && r.Header.Get(roleHeader) == Owner.String()
}

// answer collects the answer of the manager.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
