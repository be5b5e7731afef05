package authz

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // RFC 6455 has it
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// headLimit bounds the head of the request that opens a WebSocket, and of its answer.
const headLimit = 16 << 10

var errHead = errors.New("no head of an HTTP message within bounds")

// readHead reads up to the empty line, which is part of the result.
func readHead(r *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := r.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case len(head) > headLimit || errors.Is(err, bufio.ErrBufferFull):
			return nil, errHead
		case err != nil && len(head) == 0:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			return head, nil
		}
	}
}

// upgrade is the request that opens a WebSocket.
type upgrade struct {
	head  []byte // without the offers of compression
	nonce string // of the WebSocket
	key   string // of NetworkHead, and role likewise
	role  Role
	// accepted means that the proxy has opened the WebSocket of the client itself.
	accepted bool
}

// The headers by which codex-proxy names the API key of a client and its role.
const (
	keyHeader  = "Codex-Proxy-Key"
	roleHeader = "Codex-Proxy-Role"
)

// NetworkHead are the lines of a head by which a client attaches with the API key called key, in the role.
func NetworkHead(key string, role Role) string {
	return keyHeader + ": " + key + "\r\n" + roleHeader + ": " + role.String() + "\r\n"
}

// NetworkHeader has the same for a library of HTTP.
func NetworkHeader(key string, role Role) http.Header {
	return http.Header{keyHeader: {key}, roleHeader: {role.String()}}
}

// offers are the headers by which a client offers to compress messages: the proxy reads them.
var offers = []string{"sec-websocket-extensions", "x-codex-app-server-compression"}

// parseUpgrade accepts a GET that asks for a WebSocket.
func parseUpgrade(head []byte) (u upgrade, err error) {
	lines := bytes.SplitAfter(head, []byte("\n"))
	if !bytes.HasPrefix(lines[0], []byte("GET ")) || !bytes.HasSuffix(bytes.TrimSpace(lines[0]), []byte(" HTTP/1.1")) {
		return u, errHead
	}
	websocket := false
	u.head, u.role = append(u.head, lines[0]...), Viewer
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(string(line), ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch name {
		case "content-length", "transfer-encoding":
			return u, errHead // a body would be read as frames by the one side alone
		case "upgrade":
			websocket = strings.EqualFold(value, "websocket")
		case "sec-websocket-key":
			u.nonce = value
		case strings.ToLower(keyHeader):
			u.key = value
			continue
		case strings.ToLower(roleHeader):
			if value == Owner.String() {
				u.role = Owner
			}
			continue
		}
		if !contains(offers, name) {
			u.head = append(u.head, line...)
		}
	}
	if !websocket || u.nonce == "" {
		return u, errHead
	}
	return u, nil
}

func contains(list []string, name string) bool {
	for _, l := range list {
		if l == name {
			return true
		}
	}
	return false
}

// agreed is an error if the answer to the upgrade is no agreement, or one on a compression that was not offered.
func agreed(head []byte) error {
	lines := strings.Split(string(head), "\n")
	if !strings.HasPrefix(lines[0], "HTTP/1.1 101") {
		return fmt.Errorf("codex answers %q", strings.TrimSpace(lines[0]))
	}
	for _, line := range lines[1:] {
		if name, _, _ := strings.Cut(line, ":"); contains(offers, strings.ToLower(strings.TrimSpace(name))) {
			return fmt.Errorf("codex compresses what it was not offered: %q", strings.TrimSpace(line))
		}
	}
	return nil
}

// accept is the answer of a server that opens the WebSocket itself, with further lines.
func (u upgrade) accept(lines ...string) string {
	sum := sha1.Sum([]byte(u.nonce + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455, 4.2.2
	return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n" + strings.Join(lines, "") + "\r\n"
}

// plainAnswer is for a client that asks for no WebSocket.
func plainAnswer(p *Proxy) string {
	body := fmt.Sprintf("This is the socket of the remote %[1]s, for codex: codex-proxy attach %[1]s\n", p.Remote)
	if p.Open {
		body = fmt.Sprintf("This is the socket of %s, for codex\n", p.subject())
	}
	return fmt.Sprintf("HTTP/1.1 426 Upgrade Required\r\nConnection: close\r\nUpgrade: websocket\r\n"+
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
