package authz

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// maxMessageHeader is codex's header with the size of the largest frame, in its answer to the request for a WebSocket.
const maxMessageHeader = "x-codex-websocket-max-unfragmented-message-bytes"

// greet waits until codex serves. Meanwhile it answers the first message of the client, if that is an initialize: a TUI
// gives up a server that has not answered after 2 s. The message stays in the buffer, for codex; the result is its id.
func (p *Proxy) greet(ctx context.Context, client net.Conn, in *bufio.Reader, up *upgrade) (id []byte, err error) {
	if p.Starting == nil {
		return nil, nil
	}
	result, wait := p.Starting()
	if wait == nil {
		return nil, nil
	}
	if result != nil {
		up.accepted = true
		largest := fmt.Sprintf("%s: %d\r\n", maxMessageHeader, frameLimit)
		if _, err := io.WriteString(client, up.accept(largest)); err != nil {
			return nil, err
		}
		if id, err = answerInitialize(client, in, result); err != nil {
			return nil, err
		}
	}
	return id, wait(ctx)
}

// answerInitialize returns no id if the first message is another one.
func answerInitialize(client net.Conn, in *bufio.Reader, result json.RawMessage) (id []byte, err error) {
	if err := client.SetReadDeadline(time.Now().Add(headBound)); err != nil {
		return nil, err
	}
	m, err := peekMessage(in)
	if err != nil {
		return nil, err
	}
	if err := client.SetReadDeadline(time.Time{}); err != nil || m.method != "initialize" || m.id == nil {
		return nil, err
	}
	body := fmt.Appendf(nil, `{"id":%s,"result":%s}`, m.id, named(result, member(m.params, "clientInfo")))
	frame := append(appendHeader(nil, header{fin: true, op: text, length: int64(len(body))}), body...)
	if _, err := client.Write(frame); err != nil {
		return nil, err
	}
	return append([]byte(nil), m.id...), nil
}

// peekMessage reads the first message, which stays in the buffer. It returns an empty one for a message in fragments,
// for one that does not fit into the buffer, and for one that does not parse.
func peekMessage(in *bufio.Reader) (m message, err error) {
	for n := 2; ; n++ {
		b, err := in.Peek(n)
		if err != nil {
			return m, err
		}
		h, size, err := parseHeader(b)
		switch {
		case err != nil || size > 0 && (!h.fin || h.op != text || !h.masked || h.length > int64(in.Size()-size)):
			return m, nil // for inbound to judge
		case size == 0:
			continue
		}
		frame, err := in.Peek(size + int(h.length))
		if err != nil {
			return m, err
		}
		payload := append([]byte(nil), frame[size:]...)
		unmask(payload, h.mask, 0)
		m, err := parse(payload)
		if err != nil {
			return message{}, nil
		}
		return m, nil
	}
}

// named is codex's result of an initialize for another client: codex ends its user agent with the name and the version
// of the client, in parentheses.
func named(result json.RawMessage, clientInfo []byte) json.RawMessage {
	var all map[string]json.RawMessage
	var agent string
	if json.Unmarshal(result, &all) != nil || json.Unmarshal(all["userAgent"], &agent) != nil {
		return result
	}
	if i := lastParenthesis(agent); i >= 0 {
		agent = fmt.Sprintf("%s(%s; %s)", agent[:i], textMember(clientInfo, "name"), textMember(clientInfo, "version"))
	}
	var err error
	if all["userAgent"], err = json.Marshal(agent); err != nil {
		return result
	}
	if out, err := json.Marshal(all); err == nil {
		return out
	}
	return result
}

// lastParenthesis is where the part of the client begins in a user agent; -1 if it has none.
func lastParenthesis(agent string) int {
	for i := len(agent) - 1; i > 0; i-- {
		if agent[i] == '(' && agent[i-1] == ' ' && agent[len(agent)-1] == ')' {
			return i
		}
	}
	return -1
}
