package nightly

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOr(t *testing.T) {
	t.Setenv(Env, "")
	assert.Equal(t, 2, Or(10, 2))
	t.Setenv(Env, "1")
	assert.Equal(t, 10, Or(10, 2))
}
