package codexhome

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Login is the kind of a home's login.
type Login string

// The logins that codex distinguishes.
const (
	NoLogin    Login = ""
	ChatGPT    Login = "chatgpt"
	APIKey     Login = "api_key"
	OtherLogin Login = "other" // such as an access token
)

// StoredLogin is a home's login without its secrets.
type StoredLogin struct {
	Login   Login
	Account string // of a ChatGPT login: the account's id at OpenAI, and the user's in it; empty: unknown
	Refresh string // a digest of the refresh token; empty without one
}

// authDocument is codex's auth.json (0.169). Older versions have no auth_mode.
type authDocument struct {
	Mode   string  `json:"auth_mode"`
	APIKey *string `json:"OPENAI_API_KEY"`
	Tokens *struct {
		ID      string `json:"id_token"`
		Refresh string `json:"refresh_token"`
		Account string `json:"account_id"`
	} `json:"tokens"`
}

// ReadLogin reads the login in a home of an untrusted owner. It runs no program, and does not ask the server
// whether the login is valid. The error wraps fs.ErrNotExist if there is no such home.
func ReadLogin(home string) (StoredLogin, error) {
	root, err := os.OpenRoot(home)
	if err != nil {
		return StoredLogin{}, fmt.Errorf("cannot read the login: %w", err)
	}
	defer func() { _ = root.Close() }()
	doc, err := readOwn(root, authName)
	if errors.Is(err, fs.ErrNotExist) {
		return StoredLogin{}, nil
	}
	if err != nil {
		return StoredLogin{}, fmt.Errorf("cannot read the login in %s: %w", home, err)
	}
	var auth authDocument
	if err := json.Unmarshal(doc, &auth); err != nil { // the error quotes no value
		return StoredLogin{}, &Problem{Text: fmt.Sprintf("the login in %s/%s is damaged", home, authName),
			Hint: "log in again"}
	}
	return auth.stored(), nil
}

func (a authDocument) stored() StoredLogin {
	switch {
	case a.Tokens != nil && (a.Mode == "" || a.Mode == "chatgpt"):
		return StoredLogin{Login: ChatGPT, Account: accountOf(a.Tokens.Account, a.Tokens.ID),
			Refresh: digest(a.Tokens.Refresh)}
	case a.APIKey != nil && *a.APIKey != "" && (a.Mode == "" || a.Mode == "apikey"):
		return StoredLogin{Login: APIKey}
	case a.Mode == "":
		return StoredLogin{}
	}
	return StoredLogin{Login: OtherLogin}
}

// accountOf adds the user in an id token to the account: the members of a workspace share its id, each with limits
// of their own.
func accountOf(account, idToken string) string {
	var claims struct {
		Auth struct {
			Account string `json:"chatgpt_account_id"`
			User    string `json:"chatgpt_user_id"`
		} `json:"https://api.openai.com/auth"`
	}
	if parts := strings.Split(idToken, "."); len(parts) == 3 {
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || json.Unmarshal(payload, &claims) != nil {
			claims.Auth.User = ""
		}
	}
	if account == "" {
		account = claims.Auth.Account
	}
	return strings.Trim(account+" "+claims.Auth.User, " ")
}

func digest(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// authMost is far above the size of any auth.json.
const authMost = 1 << 20

// readOwn reads a regular file of a home. os.Root lets no link lead out of the home.
func readOwn(root *os.Root, name string) ([]byte, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > authMost {
		return nil, fmt.Errorf("%s is not a login of codex", name)
	}
	return io.ReadAll(io.LimitReader(file, authMost))
}
