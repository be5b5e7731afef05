package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Keys is what /v1/keys tells of the API keys in force.
type Keys struct {
	Count int `json:"count"`
	// Digest is auth.Keys.Digest.
	Digest string `json:"digest"`
	// Closed says that there is no key, and that one is asked for all the same:
	// nobody can use the API.
	Closed bool `json:"closed,omitempty"`
}

// KeyTable is the API keys of the daemon.
type KeyTable interface {
	InForce() Keys
	// Replace puts a key file into force. The error may be ErrMoved.
	Replace(file string) (Keys, error)
}

// ErrMoved means that another process is about to serve instead of this one, or
// does already: it is the one to ask.
var ErrMoved = errors.New("another process has taken over; ask again")

// movedPause is how long a client waits before it asks the other process.
const movedPause = 50 * time.Millisecond

func (s *Server) getKeys(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, s.keys.InForce())
}

// putKeys puts the key file in the body into force, hashes and limits.
func (s *Server) putKeys(w http.ResponseWriter, r *http.Request) {
	file, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		write(w, http.StatusBadRequest, failure{"cannot read the keys: " + err.Error()})
		return
	}
	keys, err := s.keys.Replace(string(file))
	switch {
	case errors.Is(err, ErrMoved):
		write(w, http.StatusConflict, failure{err.Error()})
	case err != nil:
		write(w, http.StatusBadRequest, failure{err.Error()})
	default:
		write(w, http.StatusOK, keys)
	}
}

// SetKeys puts a key file into force in the running daemon, for every request
// that comes from then on.
func (c *Client) SetKeys(ctx context.Context, file string) (keys Keys, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout) // a hand-off that is under way comes first
	defer cancel()
	err = settled(ctx, func() (err error) {
		keys, err = c.askKeys(ctx, http.MethodPut, []byte(file))
		return err
	})
	return keys, err
}

// Keys tells of the API keys in force.
func (c *Client) Keys(ctx context.Context) (Keys, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return c.askKeys(ctx, http.MethodGet, nil)
}

func (c *Client) askKeys(ctx context.Context, method string, file []byte) (keys Keys, err error) {
	res, err := c.do(ctx, method, "/v1/keys", file)
	if err != nil {
		return keys, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxReport)).Decode(&keys); err != nil {
		return keys, fmt.Errorf("cannot read the answer of codex-proxy: %w", err)
	}
	return keys, nil
}
