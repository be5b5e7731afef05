package mainprocess

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"codex-proxy/notify"
)

const (
	// waitingBound is the time in which a connection that waits is accepted.
	waitingBound = 100 * time.Millisecond
	// turnAwayBound bounds the exchange with one client.
	turnAwayBound = time.Second
)

// TurnAway answers the clients that wait at the sockets of that name with the reason why codex does not start. Without
// it they would read of a cut connection, and systemd would start the unit for the same connection until its limit of
// starts.
func TurnAway(name string, reason error) {
	sockets, err := notify.Inherited()
	if err != nil {
		return
	}
	defer func() { _ = sockets.Close() }()
	body, err := json.Marshal(map[string]string{"error": strings.Join(strings.Fields(reason.Error()), " ")})
	if err != nil {
		return
	}
	var work sync.WaitGroup
	for _, l := range sockets[name] {
		if d, is := l.(interface{ SetDeadline(t time.Time) error }); !is ||
			d.SetDeadline(time.Now().Add(waitingBound)) != nil {
			continue
		}
		work.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				work.Go(func() { refuse(conn, body) })
			}
		})
	}
	work.Wait()
}

func refuse(conn net.Conn, body []byte) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(turnAwayBound))
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	resp := http.Response{StatusCode: http.StatusServiceUnavailable, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Request: r,
		Header:  http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body))}
	_ = resp.Write(conn) // it may have gone
	_, _ = io.Copy(io.Discard, r.Body)
}
