package server

import (
	"encoding/json"
	"net/http"
)

// answer carries out a button of a notification. Its service worker has no session, which is in a tab alone: the token
// is its right.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token    string `json:"token"`
		Decision string `json:"decision"`
	}
	from := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	from.DisallowUnknownFields()
	if err := from.Decode(&body); err != nil || len(body.Token) > maxSecret || len(body.Decision) > maxSecret {
		refuse(w, http.StatusBadRequest, "the answer is no JSON object with token and decision, or is too long")
		return
	}
	select {
	case s.answers <- struct{}{}:
		defer func() { <-s.answers }()
	default:
		refuse(w, http.StatusServiceUnavailable, "too many answers at the same time; try again in a moment")
		return
	}
	err := s.settings.Answer(r.Context(), body.Token, body.Decision)
	s.beginAnswer(w)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, map[string]bool{"ok": true})
}
