package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"codex-proxy/internal/unixtime"
)

// Login is the answer of a worker: an access token, which is of use to nobody after ExpiresAt. The refresh token stays
// with the worker.
type Login struct {
	AccessToken string `json:"access_token"`
	AccountID   string `json:"account_id"`
	Plan        string `json:"plan,omitempty"`
	Email       string `json:"email,omitempty"`
	ExpiresAt   int64  `json:"expires_at,omitempty"` // in seconds since 1970; 0: not known
}

// String keeps the token out of any log.
func (l Login) String() string { return "a login of " + l.Email }

// GoString implements fmt.GoStringer, without the token.
func (l Login) GoString() string { return l.String() }

// LogValue implements slog.LogValuer, without the token.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

// Lasts reports whether the token is of use for so long after now.
func (l Login) Lasts(now time.Time, d time.Duration) bool {
	return l.AccessToken != "" && (l.ExpiresAt == 0 || now.Add(d).Before(unixtime.Of(l.ExpiresAt)))
}

// Digest names a token without revealing it.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:16])
}

// Question is the beginning of the line with which the service asks a worker for its login. The digest of a token that
// was refused may follow.
const Question = "codex-proxy login"

// QuestionFor is the line. An ask with another digest than Digest makes names no token.
func QuestionFor(a Ask) string {
	if raw, err := hex.DecodeString(a.Token); a.Refused != Unauthorized || err != nil || len(raw) != sha256.Size/2 {
		return Question + "\n"
	}
	return Question + " " + a.Token + "\n"
}

// RefusedIn is the digest in a line that QuestionFor made; empty if the line names no token.
func RefusedIn(line string) string {
	return strings.TrimSpace(strings.TrimPrefix(line, Question))
}

// loginAnswer is the line with which a worker answers.
type loginAnswer struct {
	Login
	Error *Error `json:"error,omitempty"`
}

// Answer answers the question on conn, as a worker does. An err that is no *Error is Unavailable.
func Answer(conn io.Writer, login Login, err error) error {
	line := loginAnswer{Login: login}
	if err != nil {
		line = loginAnswer{Error: &Error{Code: Unavailable, Message: err.Error()}}
		_ = errors.As(err, &line.Error)
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = conn.Write(append(text, '\n'))
	}
	return err
}

// maxLogin bounds the line of a login, in bytes.
const maxLogin = 64 << 10

// readLogin reads the answer of a worker from the descriptor of a connection. It closes the descriptor.
func readLogin(file *os.File, within time.Duration) (Login, error) {
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return Login{}, fmt.Errorf("the connection to the worker: %w", err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return Login{}, err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxLogin))
	var line loginAnswer
	switch end := bytes.IndexByte(text, '\n'); {
	case end >= 0: // a cut after the line takes nothing away
		if json.Unmarshal(text[:end], &line) != nil { // the error would quote the token
			return Login{}, errors.New("the worker's answer is not a login")
		}
	case err != nil:
		return Login{}, fmt.Errorf("the worker has sent no login: %w", err)
	default:
		return Login{}, errors.New("the worker has sent no login: it may have ended meanwhile")
	}
	switch {
	case line.Error != nil:
		return Login{}, line.Error
	case line.AccessToken == "" || line.AccountID == "":
		return Login{}, errors.New("the worker's answer has no token")
	}
	return line.Login, nil
}
