package login

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/handshake"
	"codex-proxy/codex/rpc"
	"codex-proxy/workers/broker"
)

// Prefix begins each question, which is a line. A connection has one question and one answer.
const Prefix = "codex-proxy "

const (
	// ownQuestion asks for the login as broker.Question does, for the broker of the worker itself.
	ownQuestion = Prefix + "own login"
	// accountQuestion is followed by a request for codex, in JSON.
	accountQuestion = Prefix + "account "

	// lineBound is for the line of a question, and for the write of its answer.
	lineBound = 5 * time.Second
	// answerBound is for the answer: codex may have to ask the account's server.
	answerBound = 30 * time.Second
	// longestQuestion and longestAnswer bound a line, in bytes.
	longestQuestion = 256
	longestAnswer   = 256 << 10
)

// readings are the requests that the daemon may pass to codex. None of their answers has a token.
var readings = map[string]bool{"account/read": true, "account/rateLimits/read": true}

// request is a request for codex, and reply its answer.
type request struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type reply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpc.Error      `json:"error,omitempty"`
}

// ReadQuestion reads one line and nothing behind it.
func ReadQuestion(conn net.Conn) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(lineBound)); err != nil {
		return "", err
	}
	var line strings.Builder
	for one := make([]byte, 1); line.Len() < longestQuestion; {
		if _, err := conn.Read(one); err != nil {
			return "", err
		}
		line.WriteByte(one[0])
		if one[0] == '\n' {
			return line.String(), nil
		}
	}
	return "", bufio.ErrTooLong
}

// AnswerLent answers a question for the login that is lent to a remote.
func (l *Tokens) AnswerLent(ctx context.Context, conn net.Conn, line string) {
	l.answer(ctx, conn, line, l.Token)
}

func (l *Tokens) answer(ctx context.Context, conn net.Conn, line string,
	token func(context.Context, string) (broker.Login, error)) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	login, err := token(ctx, broker.RefusedIn(strings.TrimPrefix(line, ownQuestion)))
	if conn.SetWriteDeadline(time.Now().Add(lineBound)) == nil {
		_ = broker.Answer(conn, login, err) // the client may have gone
	}
}

// serve answers one question of the daemon, or of the worker's own broker.
func (l *Tokens) serve(ctx context.Context, conn net.Conn, own bool) {
	line, err := ReadQuestion(conn)
	if err != nil {
		return
	}
	asked, isAccount := strings.CutPrefix(line, accountQuestion)
	switch {
	case isAccount:
		l.pass(ctx, conn, asked)
	case own && strings.HasPrefix(line, ownQuestion):
		l.answer(ctx, conn, line, l.Own)
	case strings.HasPrefix(line, broker.Question):
		l.AnswerLent(ctx, conn, line)
	}
}

// pass answers with codex's reply to a request about its account.
func (l *Tokens) pass(ctx context.Context, conn net.Conn, asked string) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	var r request
	if json.Unmarshal([]byte(asked), &r) != nil || !readings[r.Method] {
		writeReply(conn, nil, &rpc.Error{Code: rpc.CodeMethodNotFound,
			Message: "a login answers questions for its account alone"})
		return
	}
	var result json.RawMessage
	_, err := handshake.With(ctx, l.Socket, l.Version, func(codex *appserver.Conn) error {
		return codex.Call(ctx, r.Method, r.Params, &result)
	})
	writeReply(conn, result, err)
}

func writeReply(conn net.Conn, result json.RawMessage, err error) {
	answer := reply{Result: result}
	if err != nil {
		answer = reply{Error: &rpc.Error{Code: rpc.CodeInternalError, Message: err.Error()}}
		_ = errors.As(err, &answer.Error)
	}
	text, err := json.Marshal(answer)
	if err == nil && conn.SetWriteDeadline(time.Now().Add(lineBound)) == nil {
		_, _ = conn.Write(append(text, '\n')) // the client may have gone
	}
}

// refuse answers one question with a fault of the unit.
func refuse(conn net.Conn, fault *broker.Error) {
	line, err := ReadQuestion(conn)
	switch {
	case err != nil:
	case strings.HasPrefix(line, accountQuestion):
		writeReply(conn, nil, &rpc.Error{Code: rpc.CodeInternalError, Message: fault.Message})
	case conn.SetWriteDeadline(time.Now().Add(lineBound)) == nil:
		_ = broker.Answer(conn, broker.Login{}, fault)
	}
}

// Ask asks the unit at the socket for the login, for the broker of its worker. refused is a token that OpenAI has
// refused; empty: none. The error is a *broker.Error if the unit has answered.
func Ask(ctx context.Context, socket, refused string) (broker.Login, error) {
	line := ownQuestion
	if refused != "" {
		line += " " + broker.Digest(refused)
	}
	var answer struct {
		broker.Login
		Error *broker.Error `json:"error"`
	}
	switch err := exchange(ctx, socket, line, &answer); {
	case err != nil:
		return broker.Login{}, err
	case answer.Error != nil:
		return broker.Login{}, answer.Error
	case answer.AccessToken == "":
		return broker.Login{}, errors.New("the answer of the login's unit has no token")
	}
	return answer.Login, nil
}

// Account asks the codex of the unit at its socket about the account, for the readings of the daemon.
type Account struct{ Socket string }

// Call sends a request, which is one of readings. The error is a *rpc.Error if codex has answered.
func (a Account) Call(ctx context.Context, method string, params, result any) error {
	text, err := json.Marshal(params)
	if err == nil {
		text, err = json.Marshal(request{method, text})
	}
	if err != nil {
		return err
	}
	var answer reply
	switch err := exchange(ctx, a.Socket, accountQuestion+string(text), &answer); {
	case err != nil:
		return err
	case answer.Error != nil:
		return answer.Error
	}
	return json.Unmarshal(answer.Result, result)
}

func readAnswer(conn io.Reader, answer any) error {
	text, err := io.ReadAll(io.LimitReader(conn, longestAnswer))
	if err == nil && json.Unmarshal(text, answer) != nil {
		err = errors.New("it has ended meanwhile") // the error of JSON would quote the token
	}
	return err
}

// exchange sends a question and reads the answer. A unit that does not run starts meanwhile.
func exchange(ctx context.Context, socket, line string, answer any) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("cannot reach the unit of the login: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err = conn.Write([]byte(line + "\n")); err == nil {
		err = readAnswer(conn, answer)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the unit of the login does not answer: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("the unit of the login does not answer: %w", err)
	}
	return nil
}
