package deliver

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

const (
	// Route is the one of the messages.
	Route = "POST /push"
	// maxRequest bounds a message in JSON, in bytes.
	maxRequest = 16 << 10
	// margin is the time for an answer.
	margin = 5 * time.Second
)

// ServeHTTP serves Route.
func (d *Deliverer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A writer that has no deadline needs none.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(Bound + margin))
	var m Message
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&m); err != nil {
		refuse(w, &Error{Refused, "the message is too long, or no JSON"})
		return
	}
	if err := d.Deliver(r.Context(), m); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func refuse(w http.ResponseWriter, err error) {
	known := &Error{Busy, "the sender has gone"}
	errors.As(err, &known)
	status := http.StatusBadRequest
	if known.Passing() {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(known) // the sender has gone
}
