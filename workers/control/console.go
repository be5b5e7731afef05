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
