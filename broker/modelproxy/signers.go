package modelproxy

import (
	"context"
	"net/http"
	"strings"

	"codex-proxy/broker/conversation"
	"codex-proxy/workers/sharing"
)

// signers sign the requests of several accounts, by their names. Without a name, it is the worker's own.
type signers map[string]*signer

type accountKey struct{}

// accountOf is the account of a request; empty: the worker's own.
func accountOf(r *http.Request) string {
	name, _ := r.Context().Value(accountKey{}).(string)
	return name
}

// choose reads the account of a request from its path, and takes it out. codex has a provider with such an address for
// each thread: a thread has one account all its life. limited is called with a quota in the middle of an answer.
func (s signers) choose(limited func(account string, h http.Header), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, is := strings.CutPrefix(r.URL.Path, sharing.AccountsPath)
		if !is {
			next.ServeHTTP(w, r)
			return
		}
		name, path, _ := strings.Cut(rest, "/")
		if name == "" || s[name] == nil || r.URL.RawPath != "" {
			refuse(w, http.StatusServiceUnavailable, "the broker of the worker does not serve this account: has it "+
				"started since the account was added? systemctl restart the worker's unit")
			return
		}
		ctx := conversation.WithLimits(r.Context(), func(h http.Header) { limited(name, h) })
		of := r.WithContext(context.WithValue(ctx, accountKey{}, name))
		to := *r.URL
		of.URL, to.Path = &to, "/"+path
		next.ServeHTTP(w, of)
	})
}

// RoundTrip implements http.RoundTripper.
func (s signers) RoundTrip(r *http.Request) (*http.Response, error) {
	return s[accountOf(r)].RoundTrip(r)
}
