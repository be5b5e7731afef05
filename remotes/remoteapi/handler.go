// Package remoteapi is the API over HTTP of the main process of a remote, and its client.
package remoteapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"codex-proxy/remotes"
)

// The paths that Handler serves. Codex's own is another.
const (
	HandlerPrefix = "/keeper/"
	statusPath    = HandlerPrefix + "status"
	continuePath  = HandlerPrefix + "continue"
	threadPath    = HandlerPrefix + "thread"
	changesPath   = HandlerPrefix + "changes"
	// SendPath takes messages.
	SendPath = HandlerPrefix + "send"
	// RenewPath is for the daemon.
	RenewPath = HandlerPrefix + "renew"
)

// maxBody bounds a message: codex accepts 1 Mi characters.
const maxBody = 8 << 20

// threadReply is the answer to a Message, and to a request to continue a thread.
type threadReply struct {
	Thread string `json:"thread,omitempty"`
	Error  string `json:"error,omitempty"`
}

// changesReply has the output of the command that prints the changes.
type changesReply struct {
	Stdout []byte `json:"stdout"`
	Stderr []byte `json:"stderr"`
}

// Handler serves a manager to people: GET /keeper/status, GET /keeper/thread, POST /keeper/send, POST /keeper/continue
// and POST /keeper/changes; and POST /keeper/renew to the daemon. The caller checks the rights.
func Handler(m *remotes.Manager) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, m.Status())
	})
	mux.HandleFunc("GET "+threadPath, func(w http.ResponseWriter, r *http.Request) {
		writeThread(w)(m.Find(r.Context(), r.FormValue("name")))
	})
	mux.HandleFunc("POST "+SendPath, serve(func(r *http.Request, msg remotes.Message) (string, error) {
		if strings.TrimSpace(msg.Text) == "" {
			return "", errors.New("the message is empty")
		}
		return m.Send(r.Context(), msg)
	}))
	mux.HandleFunc("POST "+continuePath, serve(func(r *http.Request, msg remotes.Message) (string, error) {
		return m.Proceed(r.Context(), msg.Thread)
	}))
	mux.HandleFunc("POST "+changesPath, func(w http.ResponseWriter, r *http.Request) {
		stdout, stderr, err := remotes.Changes(r.Context(), m, r.FormValue("begin") == "true")
		if err != nil {
			writeJSON(w, http.StatusConflict, threadReply{Error: err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, changesReply{stdout, stderr})
	})
	mux.HandleFunc("POST "+RenewPath, serve(func(*http.Request, remotes.Message) (string, error) {
		return "", m.Renew()
	}))
	return mux
}

func serve(f func(*http.Request, remotes.Message) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var msg remotes.Message
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&msg); err != nil {
			writeJSON(w, http.StatusBadRequest, threadReply{Error: "the request does not parse: " + err.Error()})
			return
		}
		writeThread(w)(f(r, msg))
	}
}

func writeThread(w http.ResponseWriter) func(string, error) {
	return func(thread string, err error) {
		switch {
		case errors.Is(err, remotes.ErrUnsure):
			writeJSON(w, http.StatusBadGateway, threadReply{thread, err.Error()})
			return
		case err != nil:
			writeJSON(w, http.StatusConflict, threadReply{thread, err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, threadReply{Thread: thread})
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
