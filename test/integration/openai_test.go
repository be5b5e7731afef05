package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// openAI plays OpenAI's hosts inside a machine: the login of codex, its queries of an
// account, and the Responses API, which the bed's model endpoint answers. codex runs as
// on a server; the names lead here, and the certificate of the test is trusted.
type openAI struct {
	models http.Handler

	mu       sync.Mutex
	approved bool          // the person at the browser
	used     int           // percent of the windows
	bearers  []string      // of turns, in order
	revoked  int           // logins
	stuck    chan struct{} // if not nil, queries of limits wait until it is closed
	asked    chan struct{} // capacity 1; gets a token when a query waits
}

const (
	authority   = "/etc/ssl/openai-test.pem"
	userCode    = "ABCD-12345"
	accountMail = "person@example.com"
)

// openAI starts the hosts, and makes the workers trust them.
func (b *bed) openAI() *openAI {
	b.t.Helper()
	o := &openAI{models: b.models.Handler(), used: 42}
	certificate, root := certify(b.t, "auth.openai.com", "chatgpt.com", "api.openai.com")
	require.NoError(b.t, b.WriteFile(authority, root, 0o644))
	b.dropIn("codex-worker@.service", "openai", "[Service]\nEnvironment=SSL_CERT_FILE="+authority+"\n")
	b.appendTo("/etc/hosts", "127.0.0.1 auth.openai.com chatgpt.com api.openai.com\n")
	b.serveTLS("127.0.0.1:443", certificate, o)
	return o
}

// certify makes an authority and a certificate for these names; rustls takes no
// authority for a server.
func certify(t *testing.T, names ...string) (tls.Certificate, []byte) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour),
			time.Now().Add(24*time.Hour)
		if by == nil {
			by = key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		require.NoError(t, err)
		return der, key
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	root, signer := sign(authority, authority, nil)
	leaf, key := sign(&x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, authority, signer)
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
}

// approve sets whether the person at the browser has approved the login.
func (o *openAI) approve(yes bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.approved = yes
}

// revocations are how many logins were revoked.
func (o *openAI) revocations() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.revoked
}

func (o *openAI) seen() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.bearers...)
}

// ServeHTTP implements http.Handler.
func (o *openAI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	approved, used := o.approved, o.used
	o.mu.Unlock()
	reset := time.Now().Add(72 * time.Minute).Unix()
	switch r.Host + r.URL.Path {
	case "auth.openai.com/api/accounts/deviceauth/usercode":
		sendJSON(w, http.StatusOK, map[string]any{"device_auth_id": "device-1", "user_code": userCode, "interval": "1"})
	case "auth.openai.com/api/accounts/deviceauth/token":
		if !approved {
			sendJSON(w, http.StatusForbidden, map[string]any{"error": "pending"})
			return
		}
		sendJSON(w, http.StatusOK, map[string]any{"authorization_code": "code-1", "code_challenge": "challenge",
			"code_verifier": "verifier"})
	case "auth.openai.com/oauth/token":
		sendJSON(w, http.StatusOK, map[string]any{"id_token": token("id"), "access_token": token("access"),
			"refresh_token": "refresh-SECRET"})
	case "auth.openai.com/oauth/revoke":
		o.mu.Lock()
		o.revoked++
		o.mu.Unlock()
		sendJSON(w, http.StatusOK, map[string]any{})
	case "chatgpt.com/backend-api/wham/accounts/check":
		sendJSON(w, http.StatusOK, map[string]any{"default_account_id": "account-1",
			"account_ordering": []any{"account-1"}, "accounts": []any{map[string]any{
				"id": "account-1", "name": "Person", "structure": "personal", "plan_type": "pro",
				"is_deactivated": false, "can_access_with_session": true,
				"workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT"}}})
	case "chatgpt.com/backend-api/wham/usage":
		o.wait(r)
		window := func(used, seconds int) map[string]any {
			return map[string]any{"used_percent": used, "limit_window_seconds": seconds, "reset_after_seconds": 4320,
				"reset_at": reset}
		}
		sendJSON(w, http.StatusOK, map[string]any{"plan_type": "pro", "rate_limit": map[string]any{
			"allowed": true, "limit_reached": false, "primary_window": window(used, 18_000),
			"secondary_window": window(7, 604_800)}})
	case "chatgpt.com/backend-api/codex/responses", "api.openai.com/v1/responses":
		o.turn(w, r, used, reset)
	default:
		sendJSON(w, http.StatusNotFound, map[string]any{"error": map[string]any{"message": "there is no such thing here"}})
	}
}

// hang makes queries of limits wait until the returned function is called.
func (o *openAI) hang() (goOn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stuck, o.asked = make(chan struct{}), make(chan struct{}, 1)
	return sync.OnceFunc(func() { close(o.stuck) })
}

func (o *openAI) wait(r *http.Request) {
	o.mu.Lock()
	stuck, asked := o.stuck, o.asked
	o.mu.Unlock()
	if stuck == nil {
		return
	}
	select {
	case asked <- struct{}{}:
	default:
	}
	select {
	case <-stuck:
	case <-r.Context().Done():
	}
}

func (o *openAI) turn(w http.ResponseWriter, r *http.Request, used int, reset int64) {
	if r.Method == http.MethodPost {
		o.mu.Lock()
		o.bearers = append(o.bearers, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		o.mu.Unlock()
	}
	for name, value := range map[string]any{
		"primary-used-percent": used + 1, "primary-window-minutes": 300, "primary-reset-at": reset,
	} {
		if r.Host == "chatgpt.com" {
			w.Header().Set("X-Codex-"+name, fmt.Sprint(value))
		}
	}
	r.URL.Path = "/v1/responses"
	o.models.ServeHTTP(w, r)
}

func sendJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// token is a JWT whose signature is never checked.
func token(kind string) string {
	part := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]any{"alg": "none", "typ": "JWT"}) + "." + part(map[string]any{
		"kind": kind, "email": accountMail, "exp": time.Now().Add(24 * time.Hour).Unix(),
		"https://api.openai.com/auth": map[string]any{"chatgpt_plan_type": "pro", "chatgpt_account_id": "account-1",
			"chatgpt_user_id": "user-1"},
	}) + ".SECRET"
}
