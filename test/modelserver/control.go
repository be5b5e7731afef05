package modelserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// maxWait bounds what a reader of /_requests may wait.
const maxWait = 30 * time.Second

// control adds the paths by which a test in another process drives the server:
//
//	GET    /_requests                 what was received: {"requests":[…],"open_streams":n}
//	GET    /_requests?turns=N&cut=N   the same, once N turns arrived and N were cut (504 after 30 s)
//	GET    /_requests?word=W          of those only the turns whose input has the word; with turns and cut, too
//	DELETE /_requests                 forget them
//	POST   /_scripts                  one Script or a list, as JSON
//	DELETE /_scripts                  forget them
//	POST   /_gates/NAME               release a gate
func (s *Server) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /_requests", s.readRequests)
	mux.HandleFunc("DELETE /_requests", func(http.ResponseWriter, *http.Request) { s.log.forget() })
	mux.HandleFunc("POST /_scripts", s.postScripts)
	mux.HandleFunc("DELETE /_scripts", func(http.ResponseWriter, *http.Request) { s.scripts.clear() })
	mux.HandleFunc("POST /_gates/{name}", func(_ http.ResponseWriter, r *http.Request) {
		s.Release(r.PathValue("name"))
	})
}

func (s *Server) readRequests(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	n, _ := strconv.Atoi(r.FormValue("turns"))
	cut, _ := strconv.Atoi(r.FormValue("cut"))
	word := r.FormValue("word")
	_, err := s.Wait(ctx, func(turns []Request) bool {
		turns = withWord(turns, word)
		return AtLeast(n)(turns) && CutAtLeast(cut)(turns)
	})
	list := s.Requests()
	if word != "" {
		list = withWord(s.Turns(), word)
	}
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGatewayTimeout)
	}
	writeJSON(w, map[string]any{"requests": list, "open_streams": s.OpenStreams()})
}

// withWord returns the turns whose input has the word; every input has the empty one.
func withWord(turns []Request, word string) []Request {
	return slices.DeleteFunc(turns, func(r Request) bool { return word != "" && !r.Body.contains(word) })
}

func (s *Server) postScripts(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	list, err := ParseScripts(raw)
	if err == nil {
		err = s.Add(list...)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
