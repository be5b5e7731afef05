package turn

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
)

// mostHashed is how many bytes of each end of a text identify it, together with its
// length: a first message may have megabytes of images.
const mostHashed = 4 << 10

// conversation identifies the conversation of a request within its API key: by its
// prompt_cache_key, or else by the instructions and items up to the first message of a
// user, which every later request of the conversation repeats.
func (r *Request) conversation() string {
	h := sha256.New()
	add(h, r.Key)
	if r.CacheKey != "" {
		add(h, r.CacheKey)
		return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	}
	switch {
	case r.Opening != nil:
		add(h, *r.Opening)
	case r.Turn.BaseInstructions != nil:
		add(h, *r.Turn.BaseInstructions)
	}
	for _, item := range r.Turn.Items {
		add(h, item)
		if bytes.HasPrefix(item, []byte(`{"type":"message","role":"user"`)) {
			break
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// add hashes the length of a text, and its ends.
func add[T string | ~[]byte](h hash.Hash, text T) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	h.Write([]byte(text[:min(len(text), mostHashed)]))
	if len(text) > mostHashed {
		h.Write([]byte(text[max(mostHashed, len(text)-mostHashed):]))
	}
}
