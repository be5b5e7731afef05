package accountserver

import (
	"encoding/json"
	"net/http"
	"time"
)

// control adds the paths by which a program drives the server:
//
//	GET  /_accounts                what was received, by account: {"a":{"turns":[…],"readings":[…],"refreshes":[…]}}
//	GET  /_accounts/NAME/quota     the account's Quota; lengths of windows are nanoseconds
//	PUT  /_accounts/NAME/quota     a new Quota
//	POST /_accounts/NAME/reset     empties all windows now
//	POST /_accounts/NAME/exhaust   uses up the first window; ?for=DURATION is the time to its reset (5h)
//	POST /_accounts/NAME/invalidate, /validate, /expire   the login, its tokens
//	POST /_accounts/NAME/readings?how=hang or fail        how readings are answered from now on; without how: well
//	POST /_accounts/NAME/refusals?how=stream or text      how turns are refused; without how: by status
func (s *Server) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /_accounts", func(w http.ResponseWriter, _ *http.Request) {
		all := map[string]Record{}
		for _, a := range s.Accounts() {
			all[a.Name] = a.Record()
		}
		sendJSON(w, http.StatusOK, all)
	})
	mux.HandleFunc("GET /_accounts/{name}/quota", s.named(func(w http.ResponseWriter, _ *http.Request, a *Account) {
		sendJSON(w, http.StatusOK, a.Quota())
	}))
	mux.HandleFunc("PUT /_accounts/{name}/quota", s.named(putQuota))
	mux.HandleFunc("POST /_accounts/{name}/{action}", s.named(act))
}

// named finds the account of the path.
func (s *Server) named(serve func(http.ResponseWriter, *http.Request, *Account)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := s.accounts[r.PathValue("name")]
		if a == nil {
			http.Error(w, "there is no such account", http.StatusNotFound)
			return
		}
		serve(w, r, a)
	}
}

func putQuota(w http.ResponseWriter, r *http.Request, a *Account) {
	var q Quota
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Windows) > 2 {
		http.Error(w, "this is no quota", http.StatusBadRequest)
		return
	}
	a.Change(func(now *Quota) { *now = q })
}

func act(w http.ResponseWriter, r *http.Request, a *Account) {
	switch r.PathValue("action") {
	case "reset":
		a.Reset()
	case "exhaust":
		d, err := time.ParseDuration(r.FormValue("for"))
		if err != nil {
			d = 5 * time.Hour
		}
		a.Exhaust(time.Now().Add(d))
	case "invalidate":
		a.Invalidate()
	case "validate":
		a.Validate()
	case "expire":
		a.Expire()
	case "readings":
		a.Read(Readings(r.FormValue("how")))
	case "refusals":
		a.Refuse(Refusals(r.FormValue("how")))
	default:
		http.Error(w, "there is no such action", http.StatusNotFound)
	}
}
