package shared

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"codex-proxy/proxy/stored"
)

const (
	// lockPatience is how long a claim of another response is waited for, as in a file.
	lockPatience = 250 * time.Millisecond
	// lockAgain is the time between two tries.
	lockAgain = 20 * time.Millisecond
)

// unheld is the key of a context of a change that must not touch a conversation with a holder.
type unheld struct{}

// claim is a conversation that a response has.
type claim struct{ conversation, response string }

// lostHost is the condition that the host of a row c is lost. The parameters are the name of this host, and whether it
// may judge that.
const lostHost = `c.host <> $1::text AND $2::boolean AND NOT EXISTS (
	SELECT FROM codex.hosts AS h WHERE h.name = c.host AND h.until > now())`

// Claim locks a conversation for a response until Yield, on all hosts. The error is stored.ErrLocked if another
// response has it.
func (s *Conversations) Claim(conversation, response string) error {
	return firstDo(s.both,
		func() error { return patiently(func() error { return s.claim(conversation, response) }) },
		func() error {
			if !s.file.Has(context.Background(), conversation) {
				return stored.ErrNotFound
			}
			return s.file.Claim(conversation, response)
		})
}

// patiently tries to take a lock for lockPatience.
func patiently(take func() error) error {
	err := take()
	for end := time.Now().Add(lockPatience); errors.Is(err, stored.ErrLocked) && time.Now().Before(end); err = take() {
		<-time.After(lockAgain)
	}
	return err
}

func (s *Conversations) claim(conversation, response string) error {
	var holder, process, host *string
	up := s.up()
	err := s.batch(context.Background(), 0, func(b *pgx.Batch) {
		b.Queue(`UPDATE codex.conversations AS c SET holder = $4::text, process = $5::text, host = $1::text
			WHERE c.id = $3::text AND (c.holder IS NULL OR c.holder = $4::text OR `+lostHost+`)`,
			s.host, s.steady(), conversation, response, s.Logs().Own())
		b.Queue(`SELECT holder, process, host FROM codex.conversations WHERE id = $1`, conversation).
			QueryRow(scan(&holder, &process, &host))
	})
	if away(err) && up {
		s.undos.late(func() error { return s.release(claim{conversation, response}) })
	}
	if err != nil || holder != nil && *holder == response {
		return err
	}
	return s.releaseDead(conversation, holder, process, host)
}

// releaseDead releases a conversation if the process of its holder has ended on this host. The error is
// stored.ErrLocked: the caller tries again.
func (s *Conversations) releaseDead(conversation string, holder, process, host *string) error {
	if holder != nil && host != nil && process != nil && *host == s.host && !s.Logs().Alive(*process) {
		_ = s.release(claim{conversation, *holder})
	}
	return stored.ErrLocked
}

func (d *database) release(c claim) error {
	return d.batch(context.Background(), 0, func(b *pgx.Batch) {
		b.Queue(`UPDATE codex.conversations SET holder = NULL WHERE id = $1 AND holder = $2`,
			c.conversation, c.response)
	})
}

// Yield ends the claim of a response, if it has one: later if the database does not answer.
func (s *Conversations) Yield(conversation, response string) {
	if conversation == "" {
		return
	}
	s.file.Yield(conversation, response)
	c := claim{conversation, response}
	if away(s.release(c)) {
		s.undos.add(undo{call: func() error { return s.release(c) }, times: 1})
	}
}

// Change runs a change of the items of a conversation. The error is stored.ErrLocked if a response has the
// conversation.
func (s *Conversations) Change(ctx context.Context, conversation string, change func(context.Context) error) error {
	return firstDo(s.both,
		func() error {
			if err := patiently(func() error { return s.free(ctx, conversation) }); err != nil {
				return err
			}
			return change(context.WithValue(ctx, unheld{}, true))
		},
		func() error {
			if !s.file.Has(ctx, conversation) {
				return stored.ErrNotFound
			}
			return s.file.Change(ctx, conversation, change)
		})
}

// free returns stored.ErrLocked if a response has a conversation.
func (s *Conversations) free(ctx context.Context, conversation string) error {
	var holder, process, host *string
	err := s.batch(ctx, 0, func(b *pgx.Batch) {
		b.Queue(`UPDATE codex.conversations AS c SET holder = NULL
			WHERE c.id = $3::text AND c.holder IS NOT NULL AND `+lostHost, s.host, s.steady(), conversation)
		b.Queue(`SELECT holder, process, host FROM codex.conversations WHERE id = $1`, conversation).
			QueryRow(scan(&holder, &process, &host))
	})
	if err != nil || holder == nil {
		return err
	}
	return s.releaseDead(conversation, holder, process, host)
}
