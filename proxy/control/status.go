package control

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// watchPause is the least time between two reports to one watcher: a worker
// with many short turns changes more often than anybody can read.
const watchPause = 100 * time.Millisecond

func (s *Server) status(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.report()) }

// watch sends the report, one a line, whenever it has changed, until the client
// goes or the daemon stops.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	var said []byte
	for r.Context().Err() == nil {
		changed := s.changes()
		line, err := json.Marshal(s.report())
		if err != nil {
			return // the types of a report can be marshalled
		}
		if !bytes.Equal(line, said) {
			said = line
			if _, err := w.Write(append(line, '\n')); err != nil || flush.Flush() != nil {
				return // the watcher has gone
			}
			pause(r, watchPause)
		}
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	}
}

func pause(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
}

// failure is the body of an answer that is not 200.
type failure struct {
	Error string `json:"error"`
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The status line is out: an error here can only be a client that has gone.
	_ = json.NewEncoder(w).Encode(body)
}
