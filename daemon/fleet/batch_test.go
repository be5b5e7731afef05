package fleet

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

// Each refusal of the database has its remedy, and is still one of the server.
func TestExplain(t *testing.T) {
	for code, remedy := range map[string]string{
		"28P01": "codex-proxy database join and systemctl restart codex-proxy",
		"28000": "pg_hba.conf",
		"42501": "codex-proxy database migrate",
	} {
		err := Explain(fmt.Errorf("failed to connect: %w", &pgconn.PgError{Code: code}))
		assert.ErrorContains(t, err, remedy, code)
		var refused *pgconn.PgError
		assert.ErrorAs(t, err, &refused, code)
	}
	assert.ErrorContains(t, Explain(&pgconn.PgError{Code: "42P01"}), "codex-proxy database migrate")
	assert.NoError(t, Explain(nil))
	other := errors.New("no route to host")
	assert.Equal(t, other, Explain(other))
}
