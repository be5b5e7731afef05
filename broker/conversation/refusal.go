package conversation

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// mostRefused is how many requests over a WebSocket an endpoint may refuse, one after the other, that it may serve by
// HTTP.
const mostRefused = 2

// refusal is the answer to a request that the endpoint has refused, as one by HTTP: by its status. A request that it
// may take by HTTP goes out again.
func (c *Conversations) refusal(r *http.Request, event []byte) (*http.Response, error) {
	var e struct {
		Status int             `json:"status"`
		Code   int             `json:"status_code"`
		Error  json.RawMessage `json:"error"`
		Header map[string]any  `json:"headers"`
	}
	_ = json.Unmarshal(event, &e) // without a status it goes out again
	status := max(e.Status, e.Code)
	if status != http.StatusUnauthorized && status != http.StatusTooManyRequests &&
		status < http.StatusInternalServerError {
		return nil, &unservedError{misfit: true, code: word(member(e.Error, "code"))}
	}
	h := http.Header{}
	for name, value := range e.Header {
		switch v := value.(type) {
		case string:
			h.Set(name, v)
		case float64:
			h.Set(name, strconv.FormatFloat(v, 'f', -1, 64))
		case bool:
			h.Set(name, strconv.FormatBool(v))
		}
	}
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Connection", "Content-Encoding", "Set-Cookie"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	body, err := json.Marshal(map[string]json.RawMessage{"error": e.Error})
	if err != nil {
		return nil, &unservedError{}
	}
	return answerOf(r, status, h, io.NopCloser(bytes.NewReader(body))), nil
}

// ofLife are the codes of errors that are due to the age of a WebSocket, or of the response that it keeps.
var ofLife = map[string]bool{"previous_response_not_found": true, "websocket_connection_limit_reached": true}

// misfit counts a request that the endpoint does not take over a WebSocket, and has served by HTTP.
func (c *Conversations) misfit(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ofLife[code] {
		return
	}
	if c.refused++; c.refused >= mostRefused {
		c.pause(longRest, "code", code)
	}
}
