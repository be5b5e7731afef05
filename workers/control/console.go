package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// ConsoleAsk asks for the right of a key to the console: by the key itself, or by its name.
type ConsoleAsk struct {
	Key  string `json:"key,omitempty"`
	Name string `json:"name,omitempty"`
}

// ConsoleKey is an API key at the console.
type ConsoleKey struct {
	Name string `json:"name"` // empty: there is no such key
	// ID changes with the secret of the key, and is no secret.
	ID      string   `json:"id"`
	Right   string   `json:"right"` // auth.Limits.Console
	Remotes []string `json:"remotes,omitempty"`
}

// ConsoleKeys serves what ConsoleKey asks for. An error of find is no judgement.
func ConsoleKeys(find func(ConsoleAsk) (ConsoleKey, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ask ConsoleAsk
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(&ask); err != nil {
			Refuse(w, http.StatusBadRequest, errors.New("the request is no JSON object with key or name"))
			return
		}
		key, err := find(ask)
		if err != nil {
			Refuse(w, http.StatusServiceUnavailable, err)
			return
		}
		Answer(w, key)
	}
}

// ConsoleKey returns the right of a key to the console.
func (c *Client) ConsoleKey(ctx context.Context, ask ConsoleAsk) (key ConsoleKey, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, err := json.Marshal(ask)
	if err != nil {
		return key, err
	}
	err = untilSettled(ctx, func() error {
		key = ConsoleKey{}
		_, err := c.ask(ctx, http.MethodPost, "/v1/console", body, &key)
		return err
	})
	return key, err
}

// PushCount is the body of POST /v1/pushes: the outcome of one push.
type PushCount struct {
	Outcome string `json:"outcome"`
}

// CountPush has the daemon count a push.
func (c *Client) CountPush(ctx context.Context, outcome string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, err := json.Marshal(PushCount{outcome})
	if err != nil {
		return err
	}
	var none struct{}
	_, err = c.ask(ctx, http.MethodPost, "/v1/pushes", body, &none)
	return err
}

// Process asks for the remote with that main process.
type Process struct {
	PID int32 `json:"pid"`
}

// ProcessRemote is the answer: the name of the remote.
type ProcessRemote struct {
	Remote string `json:"remote"`
}

// ErrNoRemote means that the process is not the main one of a remote.
var ErrNoRemote = errors.New("the process is not the main process of a remote")

// RemoteOf returns the name of the remote with that main process.
func (c *Client) RemoteOf(ctx context.Context, pid int32) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, err := json.Marshal(Process{pid})
	if err != nil {
		return "", err
	}
	var of ProcessRemote
	err = untilSettled(ctx, func() error {
		_, err := c.ask(ctx, http.MethodPost, "/v1/remote-of", body, &of)
		return err
	})
	return of.Remote, err
}
