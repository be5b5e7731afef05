package accountserver

import (
	"context"
	"net/http"
	"time"
)

// check answers codex's query of the login's accounts, which precedes the first reading.
func (s *Server) check(w http.ResponseWriter, _ *http.Request, a *Account) {
	sendJSON(w, http.StatusOK, map[string]any{"default_account_id": a.ID(), "account_ordering": []any{a.ID()},
		"accounts": []any{map[string]any{"id": a.ID(), "name": a.Name, "structure": "personal",
			"plan_type": a.Quota().Plan, "is_deactivated": false, "can_access_with_session": true,
			"workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT"}}})
}

// reading answers with the quota. It uses none of it.
func (s *Server) reading(w http.ResponseWriter, r *http.Request, a *Account) {
	s.update(func() { a.record.Readings = append(a.record.Readings, time.Now()) })
	how, err := a.answerable(r.Context())
	switch {
	case err != nil:
		panic(http.ErrAbortHandler)
	case how == Failing:
		refuse(w, http.StatusInternalServerError, "server_error", "scripted failure of a reading", nil)
	default:
		body := usage(a.Quota(), time.Now())
		body["account_id"], body["user_id"], body["email"] = a.ID(), a.userID(), a.Email()
		sendJSON(w, http.StatusOK, body)
	}
}

// answerable waits while readings hang.
func (a *Account) answerable(ctx context.Context) (how Readings, err error) {
	err = a.server.Wait(ctx, func() bool {
		a.server.mu.Lock()
		defer a.server.mu.Unlock()
		how = a.readings
		return how != Hanging
	})
	return how, err
}

// usage is the part of GET /wham/usage about the quota.
func usage(q Quota, now time.Time) map[string]any {
	limits := map[string]any{"allowed": q.usedUp() == nil, "limit_reached": q.usedUp() != nil,
		"primary_window": nil, "secondary_window": nil}
	for i, name := range []string{"primary_window", "secondary_window"} {
		if i >= len(q.Windows) {
			break
		}
		w := q.Windows[i]
		limits[name] = map[string]any{"used_percent": int(w.Used), "limit_window_seconds": int(w.Length.Seconds()),
			"reset_after_seconds": int(w.Resets.Sub(now).Seconds()), "reset_at": w.Resets.Unix()}
	}
	body := map[string]any{"plan_type": q.Plan, "rate_limit": limits}
	if c := q.Credits; c != nil {
		body["credits"] = map[string]any{"has_credits": c.Has, "unlimited": c.Unlimited, "balance": c.Balance}
	}
	return body
}
