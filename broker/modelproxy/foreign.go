package modelproxy

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// maxForeign bounds each map of foreign; beyond it all is forgotten, and learned again.
const maxForeign = 8192

// foreign knows which texts an account cannot use because another account has made them: encrypted reasoning, and the
// state of a turn.
type foreign struct {
	mu    sync.Mutex
	texts map[digest]bool   // that the account cannot read
	owner map[digest]string // the account of a turn's state
}

// digest stands for a text, of an account or of any.
type digest [16]byte

func digestOf(account, text string) (m digest) {
	sum := sha256.Sum256([]byte(account + "\x00" + text))
	copy(m[:], sum[:])
	return m
}

// own records which account has made a state.
func (f *foreign) own(account, state string) {
	if state == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owner == nil || len(f.owner) >= maxForeign {
		f.owner = map[digest]string{}
	}
	f.owner[digestOf("", state)] = account
}

// isForeign reports whether another account has made a state.
func (f *foreign) isForeign(account, state string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	owner, known := f.owner[digestOf("", state)]
	return known && owner != account
}

// strip takes the reasoning out of a request that the account cannot read: all of it, which it then records, or the
// part that it has recorded. A text that does not parse stays as it is.
func (f *foreign) strip(account string, body []byte, all bool) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !all && len(f.texts) == 0 {
		return body
	}
	var request map[string]json.RawMessage
	var input []json.RawMessage
	if json.Unmarshal(body, &request) != nil || json.Unmarshal(request["input"], &input) != nil {
		return body
	}
	left := make([]json.RawMessage, 0, len(input))
	for _, raw := range input {
		var item struct {
			Type      string `json:"type"`
			Encrypted string `json:"encrypted_content"`
		}
		if json.Unmarshal(raw, &item) == nil && item.Type == "reasoning" && item.Encrypted != "" {
			m := digestOf(account, item.Encrypted)
			if all {
				f.learn(m)
			}
			if f.texts[m] {
				continue
			}
		}
		left = append(left, raw)
	}
	if len(left) == len(input) {
		return body
	}
	text, err := json.Marshal(left)
	if err != nil {
		return body
	}
	request["input"] = text
	if text, err = json.Marshal(request); err != nil {
		return body
	}
	return text
}

func (f *foreign) learn(m digest) {
	if f.texts == nil || len(f.texts) >= maxForeign {
		f.texts = map[digest]bool{}
	}
	f.texts[m] = true
}
