package apitest

import (
	"encoding/json"
	"net/http"

	"codex-proxy/runner/api/wire"
)

// watch sends all sessions at each change.
func (d *Daemon) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	to := json.NewEncoder(w)
	for whole := true; ; whole = false {
		d.mu.Lock()
		changed, line := d.changed, wire.Watched{Whole: whole}
		for _, s := range d.sessions {
			one := s.whole()
			one.Commands = one.Commands[len(one.Commands)-1:]
			line.Sessions = append(line.Sessions, one)
		}
		d.mu.Unlock()
		if whole {
			line.Status = &wire.Status{Version: "1.2.3", Ready: true}
		}
		if to.Encode(line) != nil || http.NewResponseController(w).Flush() != nil || r.FormValue("follow") != "true" {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
