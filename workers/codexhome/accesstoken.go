package codexhome

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// AccessToken has the values that a ChatGPT login sends with its requests. It prints nothing of the token.
type AccessToken struct {
	Token   string
	Account string // the account's id at OpenAI
	Expires int64  // in seconds since 1970; 0: not known
}

// String implements fmt.Stringer.
func (t AccessToken) String() string { return "the token of " + t.Account }

// GoString implements fmt.GoStringer.
func (t AccessToken) GoString() string { return t.String() }

// ErrNoToken is a home without an access token: it has no login, or one such as an API key.
var ErrNoToken = errors.New("there is no ChatGPT login")

// ReadAccessToken reads the access token of the login in a home. It does not ask the server whether that is valid.
func ReadAccessToken(home string) (AccessToken, error) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return AccessToken{}, fmt.Errorf("cannot read the login: %w", err)
	}
	defer func() { _ = root.Close() }()
	doc, err := readOwn(root, authName)
	if errors.Is(err, fs.ErrNotExist) {
		return AccessToken{}, ErrNoToken
	}
	if err != nil {
		return AccessToken{}, fmt.Errorf("cannot read the login in %s: %w", home, err)
	}
	var auth struct {
		Mode   string `json:"auth_mode"`
		Tokens struct {
			Access  string `json:"access_token"`
			Account string `json:"account_id"`
			ID      string `json:"id_token"`
		} `json:"tokens"`
	}
	if json.Unmarshal(doc, &auth) != nil { // its error may quote a value
		return AccessToken{}, fmt.Errorf("the login in %s/%s is damaged", home, authName)
	}
	if auth.Mode != "" && auth.Mode != "chatgpt" || auth.Tokens.Access == "" {
		return AccessToken{}, ErrNoToken
	}
	account, _, _ := strings.Cut(accountOf(auth.Tokens.Account, auth.Tokens.ID), " ")
	return AccessToken{Token: auth.Tokens.Access, Account: account, Expires: expiryOf(auth.Tokens.Access)}, nil
}

// expiryOf is the end of a token, as the token states it; 0 if it does not.
func expiryOf(token string) int64 {
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return 0
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return 0
	}
	return int64(min(max(claims.Expiry, 0), 1<<62)) // a larger one has no whole number
}

// ReadAPIKey returns the API key of the login in a home; empty if it has none.
func ReadAPIKey(home string) (string, error) {
	doc, err := readLogin(home, authName)
	if err != nil {
		return "", ignoreMissing(err)
	}
	var auth authDocument
	if json.Unmarshal(doc, &auth) != nil { // its error may quote a value
		return "", fmt.Errorf("the login in %s/%s is damaged", home, authName)
	}
	if auth.stored().Login != APIKey {
		return "", nil
	}
	return *auth.APIKey, nil
}
