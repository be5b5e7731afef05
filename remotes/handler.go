package remotes

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// The paths that Handler serves. Codex's own is another.
const (
	HandlerPrefix = "/keeper/"
	statusPath    = HandlerPrefix + "status"
	sendPath      = HandlerPrefix + "send"
	continuePath  = HandlerPrefix + "continue"
	threadPath    = HandlerPrefix + "thread"
)

// maxBody bounds a message: codex accepts 1 Mi characters.
const maxBody = 8 << 20

// threadReply is the answer to a Message, and to a request to continue a thread.
type threadReply struct {
	Thread string `json:"thread,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Handler serves the keeper to people: GET /keeper/status, GET /keeper/thread, POST /keeper/send and POST
// /keeper/continue. The caller checks the rights.
func (k *Keeper) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, k.Status())
	})
	mux.HandleFunc("GET "+threadPath, func(w http.ResponseWriter, r *http.Request) {
		writeThread(w)(k.Find(r.Context(), r.FormValue("name")))
	})
	mux.HandleFunc("POST "+sendPath, k.act(func(r *http.Request, m Message) (string, error) {
		if strings.TrimSpace(m.Text) == "" {
			return "", errors.New("the message is empty")
		}
		return k.Send(r.Context(), m)
	}))
	mux.HandleFunc("POST "+continuePath, k.act(func(r *http.Request, m Message) (string, error) {
		return k.Proceed(r.Context(), m.Thread)
	}))
	return mux
}

func (k *Keeper) act(f func(*http.Request, Message) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var m Message
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&m); err != nil {
			writeJSON(w, http.StatusBadRequest, threadReply{Error: "the request does not parse: " + err.Error()})
			return
		}
		writeThread(w)(f(r, m))
	}
}

func writeThread(w http.ResponseWriter) func(string, error) {
	return func(thread string, err error) {
		switch {
		case errors.Is(err, errUnsure):
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
