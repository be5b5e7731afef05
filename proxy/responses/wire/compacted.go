package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"codex-proxy/proxy/openai"
	"codex-proxy/proxy/openai/jsonbody"
)

// Compacted is a part of a conversation after its compaction. The item compaction holds it in encrypted_content, which
// clients send back as it is. The text is not secret: it summarizes the client's own conversation.
type Compacted struct {
	// Summary is the model's summary of the conversation.
	Summary string `json:"summary"`
	// Standing are the messages of the developer and the system, which hold on.
	Standing []string `json:"standing,omitempty"`
}

// compactedPrefix begins the content of every version; the version follows, and a colon.
const (
	compactedPrefix = "codex-proxy-compaction-"
	compactedHead   = compactedPrefix + "1:"
	checksumSize    = 16
	// MaxCompacted bounds the content, and maxStanding its messages: any client can make a content that takes many
	// times its size in memory.
	MaxCompacted = 4 << 20
	maxStanding  = 64
)

// Encode is the content of an item compaction: a checksum, which finds content that was cut or changed on its way, and
// the JSON, in base64. Of too many standing messages the oldest become one. ok is false if the content is too large.
func (c Compacted) Encode() (content string, ok bool) {
	if more := len(c.Standing) - maxStanding; more > 0 {
		c.Standing = append([]string{strings.Join(c.Standing[:more+1], "\n\n")}, c.Standing[more+1:]...)
	}
	data, err := openai.Encode(c)
	if err != nil { // strings always encode
		panic(err)
	}
	sum := sha256.Sum256(data)
	content = compactedHead + base64.RawURLEncoding.EncodeToString(append(sum[:checksumSize], data...))
	return content, len(content) <= MaxCompacted
}

// decodeCompacted reads the content of an item compaction; why explains content that cannot be read.
func decodeCompacted(content string) (c Compacted, why string) {
	rest, ours := strings.CutPrefix(content, compactedHead)
	switch {
	case len(content) > MaxCompacted:
		return c, "it is too large"
	case ours:
	case strings.HasPrefix(content, compactedPrefix):
		return c, "it is of another version of codex-proxy"
	default:
		return c, "it was not made by POST /v1/responses/compact of codex-proxy; compaction items of other servers can be " +
			"read there alone"
	}
	data, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || len(data) < checksumSize {
		return c, "it is cut off or changed"
	}
	sum, data := data[:checksumSize], data[checksumSize:]
	var read struct {
		Summary  string                `json:"summary"`
		Standing jsonbody.List[string] `json:"standing"`
	}
	want := sha256.Sum256(data)
	if string(want[:checksumSize]) != string(sum) || jsonbody.Unmarshal(data, &read) != nil ||
		len(read.Standing) > maxStanding {
		return c, "it is cut off or changed"
	}
	return Compacted{read.Summary, read.Standing}, ""
}

// Compacted is the content of an item compaction that has been checked.
func (i Item) Compacted() Compacted {
	c, _ := decodeCompacted(i.Encrypted)
	return c
}

// addCompaction adds an item compaction.
func (s *items) addCompaction(raw rawItem, at string) error {
	if err := requireFields(at, field{"encrypted_content", raw.Encrypted}); err != nil {
		return err
	}
	if _, why := decodeCompacted(raw.Encrypted); why != "" {
		return openai.Invalid("invalid_encrypted_content", at+".encrypted_content",
			at+".encrypted_content cannot be read: "+why+"; send the items that were compacted, or compact them here")
	}
	s.append(at, Item{Type: raw.Type, ID: raw.ID, Encrypted: raw.Encrypted})
	return nil
}
