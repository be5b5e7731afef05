package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// maxMessage bounds a message, in bytes.
const maxMessage = 16 << 10

// Refusal is why the account that a remote holds does not serve it any more.
type Refusal string

// The refusals. The empty string means no refusal.
const (
	UsageLimit   Refusal = "usage_limit"  // the model endpoint refused a request for the quota
	Unauthorized Refusal = "unauthorized" // it refused the token
)

// Ask asks for the account that serves a remote now.
type Ask struct {
	// Accounts are those that may serve; empty: all.
	Accounts []string `json:"accounts,omitempty"`
	// Hold is the account that has served last; empty: none. Have means that its login is still there and lasts:
	// then no login is sent if the account stays.
	Hold string `json:"hold,omitempty"`
	Have bool   `json:"have,omitempty"`
	// Refused is why Hold does not serve any more. ResetsAt is the reset that a usage limit named, in seconds since
	// 1970; 0: none. Token is the Digest of a token that was refused.
	Refused  Refusal `json:"refused,omitempty"`
	ResetsAt int64   `json:"resets_at,omitempty"`
	Token    string  `json:"token,omitempty"`
	// Turn means that a turn runs: the account changes only if it must.
	Turn bool `json:"turn,omitempty"`
	// Waits means that a turn waits for quota. No account that is known to be exhausted is lent for it, also while the
	// quota decides nothing.
	Waits bool `json:"waits,omitempty"`
	// Avoid are the accounts that have sent no login. Client.Acquire fills it.
	Avoid []string `json:"avoid,omitempty"`
}

// Code is a kind of failure, for programs.
type Code string

// The codes.
const (
	QuotaExhausted Code = "quota_exhausted" // no account has quota
	LoginInvalid   Code = "login_invalid"   // the logins are refused, and an operator has to log in
	Held           Code = "held"            // the remote has changed its account less than a minute ago
	Paused         Code = "paused"          // an operator has paused the accounts
	NoAccount      Code = "no_account"      // there is no such account, or none has a login that can be lent
	Unavailable    Code = "unavailable"     // the worker of the account does not run, or does not answer
	TooMany        Code = "too_many"        // the bound on connections or questions
	NotARemote     Code = "not_a_remote"    // the peer is not the main process of a remote
)

// Error is an answer without an account.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// RetryAt is when another try may have another answer; zero if that is not known.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// CodeOf is the code of an *Error; empty of any other error.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// request is a message of a remote.
type request struct {
	Hello   string        `json:"hello,omitempty"`
	ID      uint64        `json:"id,omitempty"`
	Lease   *Ask          `json:"lease,omitempty"`
	Reading *limitsReport `json:"reading,omitempty"`
}

type limitsReport struct {
	Account    string          `json:"account"`
	RateLimits json.RawMessage `json:"rate_limits"`
}

// answer is a message of the service. An answer with an account has the descriptor of a connection to its worker,
// unless the remote keeps the login that it has.
type answer struct {
	Hello   string `json:"hello,omitempty"`
	ID      uint64 `json:"id,omitempty"`
	Account string `json:"account,omitempty"`
	Why     string `json:"why,omitempty"`
	Error   *Error `json:"error,omitempty"`
	Changed bool   `json:"changed,omitempty"`
}

// send sends one message, with the descriptor fd unless that is negative.
func send(conn *net.UnixConn, message any, fd int) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("a message of %d bytes is longer than %d", len(text), maxMessage)
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	_, _, err = conn.WriteMsgUnix(text, rights, nil)
	return err
}

// receive reads one message into a value, and ancillary data into oob. The error is io.EOF at the end.
func receive(conn *net.UnixConn, buffer, oob []byte, into any) (ancillary []byte, err error) {
	n, oobn, flags, _, err := conn.ReadMsgUnix(buffer, oob)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		err = io.EOF
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("a message is longer than %d bytes", maxMessage)
	default:
		err = json.Unmarshal(buffer[:n], into)
	}
	return oob[:oobn], err
}
