package shared

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored"
)

// walk has the chain of a response: itself, and all before it; the root, which is the first of them; and the sums of
// all of them with their conversation.
const walk = `WITH RECURSIVE chain AS (
	SELECT id, previous, conversation, start, items, worker, broken, 0 AS depth
		FROM codex.responses WHERE id = $1::text AND owner = $2::text
	UNION ALL
	SELECT r.id, r.previous, r.conversation, r.start, r.items, r.worker, r.broken, chain.depth + 1
		FROM chain JOIN codex.responses AS r ON r.id = chain.previous AND r.owner = $2::text
), root AS (SELECT * FROM chain ORDER BY depth DESC LIMIT 1
), about AS (SELECT
	(SELECT count(*) FROM chain) AS found,
	coalesce((SELECT bool_or(broken) FROM chain), false) OR EXISTS (SELECT FROM root
		WHERE previous IS NOT NULL OR conversation IS NOT NULL AND NOT EXISTS (SELECT FROM codex.conversations AS c
			WHERE c.id = root.conversation AND c.owner = $2::text)) AS broken,
	coalesce((SELECT sum(items) FROM chain), 0)::bigint + coalesce((SELECT sum(octet_length(i.body)) FROM root
		JOIN codex.conversation_items AS i ON i.conversation = root.conversation AND i.position < root.start),
		0)::bigint AS size) `

// judge is the reason why a chain cannot be read.
func judge(found int64, broken bool, size int64) error {
	switch {
	case found == 0:
		return stored.ErrNotFound
	case broken:
		return stored.ErrBroken
	case size > stored.MaxHistory:
		return stored.ErrTooLong
	}
	return nil
}

// Object is the response as it was sent.
func (s *Responses) Object(ctx context.Context, owner, id string) (json.RawMessage, error) {
	return first(s.both,
		func() (object json.RawMessage, err error) {
			var bytes []byte
			err = s.row(ctx, `SELECT object FROM codex.responses WHERE id = $1 AND owner = $2`,
				[]any{id, owner}, &bytes)
			return bytes, err
		},
		func() (json.RawMessage, error) { return s.file.Object(ctx, owner, id) })
}

// Item is the newest item with that id, of a response or else of a conversation.
func (s *Responses) Item(ctx context.Context, owner, id string) (stored.Item, error) {
	return first(s.both,
		func() (item stored.Item, err error) {
			var body []byte
			item.ID = id
			err = s.row(ctx, `SELECT body, worker FROM (
				SELECT 0 AS rank, i.body, CASE WHEN i.made THEN r.worker ELSE '' END AS worker, r.used
				FROM codex.items AS i JOIN codex.responses AS r ON r.id = i.response
				WHERE i.id = $1::bytea AND r.owner = $2::text
				UNION ALL
				SELECT 1, i.body, i.worker, c.used
				FROM codex.conversation_items AS i JOIN codex.conversations AS c ON c.id = i.conversation
				WHERE i.id = $1::bytea AND c.owner = $2::text) AS found
				ORDER BY rank, used DESC LIMIT 1`, []any{[]byte(id), owner}, &body, &item.Worker)
			item.JSON = body
			return item, err
		},
		func() (stored.Item, error) { return s.file.Item(ctx, owner, id) })
}

// about is the result of About.
type about struct {
	worker string
	size   int64
}

// About is the worker that answered, and the size of History in bytes.
func (s *Responses) About(ctx context.Context, owner, id string) (worker string, size int64, err error) {
	a, err := first(s.both,
		func() (a about, err error) {
			var found int64
			var broken bool
			err = s.row(ctx, walk+`SELECT found, broken, size,
				coalesce((SELECT worker FROM chain WHERE depth = 0), '') FROM about`, []any{id, owner},
				&found, &broken, &a.size, &a.worker)
			if err == nil {
				err = judge(found, broken, a.size)
			}
			return a, err
		},
		func() (a about, err error) {
			a.worker, a.size, err = s.file.About(ctx, owner, id)
			return a, err
		})
	return a.worker, a.size, err
}

// maxRoot is how many bytes the first response of a chain may have for Root to read it.
const maxRoot = 1 << 20

// Root is the first response of a chain, as it was sent; nil if it is large.
func (s *Responses) Root(ctx context.Context, owner, id string) (json.RawMessage, error) {
	return first(s.both,
		func() (json.RawMessage, error) {
			var bytes []byte
			err := s.row(ctx, walk+`SELECT CASE WHEN octet_length(object) <= $3::bigint THEN object END
				FROM root JOIN codex.responses AS r ON r.id = root.id`, []any{id, owner, maxRoot}, &bytes)
			return bytes, err
		},
		func() (json.RawMessage, error) { return s.file.Root(ctx, owner, id) })
}

// body is the body of an item where it is wanted: of all, or of reasoning: its shown size is without a part.
const body = `CASE WHEN $5::boolean OR $6::boolean AND substring(i.id FROM 1 FOR 3) = '\x72735f'::bytea
	AND octet_length(i.body) <= 1048576 THEN i.body END, octet_length(i.body)`

// history has one row about the chain, and the items: of the conversation, and of the chain. The parameters are the id,
// the owner, the most bytes, whether all items are read, or only the input of the response, and the parameters
// of body.
const history = walk + `SELECT 0 AS part, 0 AS place, 0::bigint AS position, found, broken, size,
		NULL::bytea AS id, '' AS worker, '' AS response, '' AS conversation, NULL::bytea AS body, 0 AS length FROM about
	UNION ALL
	SELECT 1, 0, i.position, 0, false, 0, i.id, i.worker, '', root.conversation, ` + body + `
		FROM about, root JOIN codex.conversation_items AS i
			ON i.conversation = root.conversation AND i.position < root.start
		WHERE NOT about.broken AND about.size <= $3::bigint
	UNION ALL
	SELECT 2, -chain.depth, i.position, 0, false, 0, i.id, CASE WHEN i.made THEN chain.worker ELSE '' END, chain.id, '',
		` + body + `
		FROM about, chain JOIN codex.items AS i ON i.response = chain.id
		WHERE NOT about.broken AND about.size <= $3::bigint AND ($4::boolean OR chain.depth > 0 OR NOT i.made)
	ORDER BY part, place, position`

// historyRow is an item of it.
type historyRow struct {
	position               int64
	id, body               []byte
	worker                 string
	response, conversation string
	length                 int64
}

// readHistory calls each for the items. reset is called before the first.
func (s *Responses) readHistory(ctx context.Context, args []any, reset func(), each func(historyRow)) error {
	var found, size int64
	var broken bool
	err := s.rows(ctx, stored.MaxHistory, history, args, reset, func(rows pgx.Rows) error {
		var part, place int64
		var n, bytes int64
		var torn bool
		var row historyRow
		if err := rows.Scan(&part, &place, &row.position, &n, &torn, &bytes, &row.id, &row.worker, &row.response,
			&row.conversation, &row.body, &row.length); err != nil {
			return err
		}
		if part == 0 {
			found, broken, size = n, torn, bytes
		} else {
			each(row)
		}
		return nil
	})
	if err == nil {
		err = judge(found, broken, size)
	}
	return err
}

// History is all input and output up to the response, with its own.
func (s *Responses) History(ctx context.Context, owner, id string) ([]stored.Item, error) {
	return first(s.both,
		func() (items []stored.Item, err error) {
			err = s.readHistory(ctx, []any{id, owner, stored.MaxHistory, true, true, false},
				func() { items = nil },
				func(row historyRow) {
					items = append(items, stored.Item{ID: string(row.id), JSON: row.body, Worker: row.worker})
				})
			return items, err
		},
		func() ([]stored.Item, error) { return s.file.History(ctx, owner, id) })
}

// InputHeads is the history without the output of the response, and without bodies.
func (s *Responses) InputHeads(ctx context.Context, owner, id string, encrypted bool) ([]stored.Head, error) {
	return first(s.both,
		func() (heads []stored.Head, err error) {
			err = s.readHistory(ctx, []any{id, owner, stored.MaxHistory, false, false, !encrypted},
				func() { heads = nil },
				func(row historyRow) {
					heads = append(heads, stored.Head{
						ID: string(row.id), Size: shownSize(row.body, row.length), Owner: owner, Response: row.response,
						Conversation: row.conversation, Position: row.position, Encrypted: encrypted,
					})
				})
			return heads, err
		},
		func() ([]stored.Head, error) { return s.file.InputHeads(ctx, owner, id, encrypted) })
}

// Renew counts as a use of a response.
func (s *Responses) Renew(ctx context.Context, owner, id string) error {
	err := s.batch(ctx, 0, func(b *pgx.Batch) {
		b.Queue(`UPDATE codex.responses SET used = greatest(used, now()) WHERE id = $1 AND owner = $2`, id, owner)
	})
	if s.waiting.Load() > 0 {
		err = errors.Join(err, s.file.Renew(ctx, owner, id))
	}
	if away(err) || errors.Is(err, stored.ErrNotFound) {
		return nil // it may go a little sooner
	}
	return err
}

// missing is stored.ErrNotFound if nothing was found.
func missing(found bool, err error) error {
	if err == nil && !found {
		return stored.ErrNotFound
	}
	return err
}
