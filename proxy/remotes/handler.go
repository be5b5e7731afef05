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

// threadRequest is the body of the requests that act on a thread.
type threadRequest struct {
	Thread string `json:"thread,omitempty"`
	Text   string `json:"text,omitempty"`
}

// threadReply is their answer.
type threadReply struct {
	Thread string `json:"thread,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Handler serves the keeper to people: GET /keeper/status, GET /keeper/thread, POST /keeper/send and POST /keeper/continue. The caller checks
// who may do which.
func (k *Keeper) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, k.Status())
	})
	mux.HandleFunc("GET "+threadPath, func(w http.ResponseWriter, r *http.Request) {
		writeThread(w)(k.Find(r.Context(), r.FormValue("name")))
	})
	mux.HandleFunc("POST "+sendPath, k.act(func(r *http.Request, body threadRequest) (string, error) {
		if strings.TrimSpace(body.Text) == "" {
			return "", errors.New("the message is empty")
		}
		return k.Send(r.Context(), body.Thread, body.Text)
	}))
	mux.HandleFunc("POST "+continuePath, k.act(func(r *http.Request, body threadRequest) (string, error) {
		return k.Proceed(r.Context(), body.Thread)
	}))
	return mux
}

func (k *Keeper) act(f func(*http.Request, threadRequest) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body threadRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
			writeJSON(w, http.StatusBadRequest, threadReply{Error: "the request does not parse: " + err.Error()})
			return
		}
		writeThread(w)(f(r, body))
	}
}

func writeThread(w http.ResponseWriter) func(string, error) {
	return func(thread string, err error) {
		if err != nil {
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
