package shared

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"codex-proxy/proxy/stored"
)

// ObjectSize is how many bytes the response has, as it was sent.
func (s *Responses) ObjectSize(ctx context.Context, owner, id string) (int64, error) {
	return first(s.both,
		func() (size int64, err error) {
			err = s.row(ctx, `SELECT octet_length(object) FROM codex.responses WHERE id = $1 AND owner = $2`,
				[]any{id, owner}, &size)
			return size, err
		},
		func() (int64, error) { return s.file.ObjectSize(ctx, owner, id) })
}

// ObjectPart is up to n bytes of the response, from the byte at from on.
func (s *Responses) ObjectPart(ctx context.Context, owner, id string, from, n int64) ([]byte, error) {
	return first(s.both,
		func() (part []byte, err error) {
			err = s.row(ctx, `SELECT substring(object FROM $3::int FOR $4::int) FROM codex.responses
				WHERE id = $1 AND owner = $2`, []any{id, owner, from + 1, n}, &part)
			return part, err
		},
		func() ([]byte, error) { return s.file.ObjectPart(ctx, owner, id, from, n) })
}

// BodyPart is ObjectPart for the body of an item.
func (s *Responses) BodyPart(ctx context.Context, h stored.Head, from, n int64) ([]byte, error) {
	return first(s.both,
		func() ([]byte, error) { return s.bodyPart(ctx, h, from, n) },
		func() ([]byte, error) { return s.file.BodyPart(ctx, h, from, n) })
}

func (s *Responses) bodyPart(ctx context.Context, h stored.Head, from, n int64) ([]byte, error) {
	source := `FROM codex.items AS i JOIN codex.responses AS r ON r.id = i.response
		WHERE i.response = $1 AND i.position = $2 AND r.owner = $3`
	args := []any{h.Response, h.Position, h.Owner}
	if h.Conversation != "" {
		source = `FROM codex.conversation_items AS i JOIN codex.conversations AS c ON c.id = i.conversation
			WHERE i.conversation = $1 AND i.position = $2 AND c.owner = $3`
		args[0] = h.Conversation
	}
	if !h.Encrypted && strings.HasPrefix(h.ID, reasoning) {
		var whole []byte
		err := s.row(ctx, `SELECT CASE WHEN octet_length(i.body) <= 1048576 THEN i.body END `+source, args, &whole)
		if err != nil || whole != nil {
			shown := withoutEncrypted(whole)
			from = min(from, int64(len(shown)))
			return shown[from:min(from+n, int64(len(shown)))], err
		}
	}
	var part []byte
	err := s.row(ctx, `SELECT substring(i.body FROM $4::int FOR $5::int) `+source, append(args, from+1, n), &part)
	return part, err
}

// reasoning begins the ids of items of reasoning, which have encrypted_content.
const reasoning = "rs_"

// shownSize is the size of an item as clients get it: without its encrypted_content if it has a body.
func shownSize(body []byte, length int64) int64 {
	if body == nil {
		return length
	}
	return int64(len(withoutEncrypted(body)))
}

// withoutEncrypted is an object without its member encrypted_content.
func withoutEncrypted(object []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return object
	}
	shown := []byte{'{'}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return object
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return object
		}
		if name == "encrypted_content" {
			continue
		}
		key, err := json.Marshal(name)
		if err != nil {
			return object
		}
		if len(shown) > 1 {
			shown = append(shown, ',')
		}
		shown = append(append(append(shown, key...), ':'), value...)
	}
	return append(shown, '}')
}
