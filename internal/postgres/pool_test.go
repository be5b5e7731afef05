package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

// What one call meets makes the server away for no other.
func TestIsAway(t *testing.T) {
	for code, want := range map[string]bool{
		"40P01": false, "40001": false, "55P03": false, "57014": false, "23505": false, "22P05": false, "54000": false,
		"57P01": true, "57P03": true, "53300": true, "25006": true, "28P01": true, "42501": true, "55000": true, "": true,
	} {
		assert.Equal(t, want, isAway(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})), code)
	}
	assert.True(t, isAway(errors.New("no answer within 1s")))
	assert.False(t, isAway(pgx.ErrNoRows))
	assert.False(t, isAway(nil))
}
