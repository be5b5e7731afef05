package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Keys is the body of /v1/keys: the API keys in force.
type Keys struct {
	Count int `json:"count"`
	// File is the key file that has them.
	File string `json:"file,omitempty"`
	// Digest is auth.Keys.Digest.
	Digest string `json:"digest,omitempty"`
	// Closed: there is no key, and requests need one all the same, so the API
	// cannot be used.
	Closed bool `json:"closed,omitempty"`
	// Required: other machines can reach the API, so that requests need a key in
	// any case.
	Required bool `json:"required,omitempty"`
	// Keys are the keys themselves. No secret of a key is here, nor its hash.
	Keys []Key `json:"keys"`
}

// Key is one API key.
type Key struct {
	Name   string    `json:"name"`
	Limits KeyLimits `json:"limits"`
	// Used counts against the limits now; nil: the service does not run.
	Used *KeyUse `json:"used,omitempty"`
}

// KeyLimits are the limits of a key; zero values do not limit.
type KeyLimits struct {
	RequestsPerMinute int64    `json:"requests_per_minute,omitempty"`
	TokensPerMinute   int64    `json:"tokens_per_minute,omitempty"`
	TokensPerDay      int64    `json:"tokens_per_day,omitempty"`
	Concurrent        int64    `json:"concurrent,omitempty"`
	Models            []string `json:"models,omitempty"`
	Accounts          []string `json:"accounts,omitempty"`
	ChooseAccount     bool     `json:"choose_account,omitempty"`
	Remotes           []string `json:"remotes,omitempty"`
	UnknownParameters string   `json:"unknown_parameters,omitempty"`
	Console           string   `json:"console,omitempty"`
}

// KeyUse is the use of a key now.
type KeyUse struct {
	// RequestsPerMinute and TokensPerMinute are counted for keys with that limit alone.
	RequestsPerMinute int64 `json:"requests_per_minute,omitempty"`
	TokensPerMinute   int64 `json:"tokens_per_minute,omitempty"`
	TokensPerDay      int64 `json:"tokens_per_day"`
	Concurrent        int64 `json:"concurrent"`
	// Refused counts the requests that met a limit since the service has started, by the name of the limit.
	Refused map[string]int64 `json:"refused,omitempty"`
}

// KeyTable is the API keys of the daemon.
type KeyTable interface {
	InForce() Keys
	// Replace puts a key file into force, which must be the one at path unless that
	// is empty. The error may be ErrMoved or ErrOtherFile.
	Replace(path, file string) (Keys, error)
}

// ErrMoved means that another process is about to serve instead of this one, or
// does already, and is to get the command.
var ErrMoved = errors.New("another process has taken over; ask again")

// ErrOtherFile means that the daemon's keys are in another file.
var ErrOtherFile = errors.New("systemctl reload codex-proxy makes it go by what config.toml names")

// movedPause is how long a client waits before it turns to the other process.
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
	path := r.URL.Query().Get("path")
	keys, err := s.keys.Replace(path, string(file))
	switch {
	case errors.Is(err, ErrMoved):
		write(w, http.StatusConflict, failure{err.Error()})
	case errors.Is(err, ErrOtherFile):
		message := fmt.Sprintf("the running service goes by %s and not by %s", s.keys.InForce().File, path)
		write(w, http.StatusPreconditionFailed, failure{message})
	case err != nil:
		write(w, http.StatusBadRequest, failure{err.Error()})
	default:
		write(w, http.StatusOK, keys)
	}
}

// SetKeys puts a key file into force in the running daemon, for every later request.
// The daemon's key file must be the one at path, unless path is empty.
func (c *Client) SetKeys(ctx context.Context, path, file string) (keys Keys, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout) // a hand-off that is under way is first
	defer cancel()
	err = untilSettled(ctx, func() error {
		_, err := c.ask(ctx, http.MethodPut, "/v1/keys?path="+url.QueryEscape(path), []byte(file), &keys)
		return err
	})
	return keys, err
}

// Keys describes the API keys in force.
func (c *Client) Keys(ctx context.Context) (keys Keys, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err = c.ask(ctx, http.MethodGet, "/v1/keys", nil, &keys)
	return keys, err
}
