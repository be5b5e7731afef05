package accountserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"codex-proxy/test/modelserver"
)

// maxBody bounds a request.
const maxBody = 256 << 20

// turn charges the account, or refuses the turn, and has the model server answer.
func (s *Server) turn(w http.ResponseWriter, r *http.Request, a *Account) {
	body, err := read(w, r)
	if err != nil { // the connection broke off
		panic(http.ErrAbortHandler)
	}
	turn := describe(body, a)
	quota, refusals := a.take(&turn)
	limitHeaders(w.Header(), quota)
	r.Body, r.URL.Path = io.NopCloser(bytes.NewReader(body)), "/v1/responses"
	r.Header.Set(modelserver.AccountHeader, a.ID())
	switch {
	case turn.Foreign:
		refuse(w, http.StatusBadRequest, "invalid_encrypted_content",
			"The encrypted content could not be verified.", nil)
	case !turn.Refused:
		s.turns.ServeHTTP(w, r)
	case refusals == ByStatus:
		refuse(w, http.StatusTooManyRequests, "usage_limit_reached", usageLimit, map[string]any{
			"plan_type": quota.Plan, "resets_at": quota.usedUp().Resets.Unix(),
			"resets_in_seconds": int(time.Until(quota.usedUp().Resets).Seconds())})
	case refusals == InStream:
		s.models.Play(w, r, "failed insufficient_quota "+usageLimit)
	default:
		s.models.Play(w, r, "text "+RefusedText, "failed insufficient_quota "+usageLimit)
	}
}

// read returns a request's body, which codex compresses with zstd for an account.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || r.Header.Get("Content-Encoding") != "zstd" {
		return body, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBody), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	r.Header.Del("Content-Encoding")
	return decoder.DecodeAll(body, nil)
}

// usageLimit is the message of a refusal. In a stream codex takes insufficient_quota for the end of the quota; after
// any other code it would try five times more.
const usageLimit = "The usage limit has been reached"

// take records the turn and charges it, unless it is refused. It returns the quota after it.
func (a *Account) take(turn *Turn) (quota Quota, refusals Refusals) {
	a.server.update(func() {
		a.quota.advance(turn.At)
		turn.Refused = a.quota.usedUp() != nil
		if !turn.Refused && !turn.Foreign {
			a.quota.charge()
		}
		a.record.Turns = append(a.record.Turns, *turn)
		quota, refusals = a.quota.clone(), a.refusals
	})
	return quota, refusals
}

// describe reads a turn's request.
func describe(body []byte, a *Account) Turn {
	turn := Turn{At: time.Now()}
	var request struct {
		Input []struct {
			Type, Role string
			Encrypted  string `json:"encrypted_content"`
			Content    []struct{ Text string }
		}
		Metadata struct {
			TurnID string `json:"turn_id"`
		} `json:"client_metadata"`
	}
	if json.Unmarshal(body, &request) != nil {
		return turn
	}
	turn.ID = request.Metadata.TurnID
	for _, item := range request.Input {
		if item.Type == "reasoning" && item.Encrypted != "" &&
			!strings.HasPrefix(item.Encrypted, modelserver.Encrypted(a.ID())) {
			turn.Foreign = true
		}
		if item.Role == "user" {
			turn.Text = ""
			for _, part := range item.Content {
				turn.Text += part.Text
			}
		}
	}
	return turn
}

// limitHeaders are those from which codex learns an account's quota after a turn.
func limitHeaders(h http.Header, q Quota) {
	for i, name := range []string{"Primary", "Secondary"} {
		if i >= len(q.Windows) {
			break
		}
		w := q.Windows[i]
		h.Set("X-Codex-"+name+"-Used-Percent", strconv.FormatFloat(w.Used, 'f', -1, 64))
		h.Set("X-Codex-"+name+"-Window-Minutes", fmt.Sprint(int(w.Length.Minutes())))
		h.Set("X-Codex-"+name+"-Reset-At", fmt.Sprint(w.Resets.Unix()))
	}
	if c := q.Credits; c != nil {
		h.Set("X-Codex-Credits-Has-Credits", strconv.FormatBool(c.Has))
		h.Set("X-Codex-Credits-Unlimited", strconv.FormatBool(c.Unlimited))
		h.Set("X-Codex-Credits-Balance", c.Balance)
	}
}
