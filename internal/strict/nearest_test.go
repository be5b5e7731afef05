package strict

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNearest(t *testing.T) {
	keys := []string{"mode", "codex_path", "model", "workspace"}
	for key, want := range map[string]string{"modle": "model", "mod": "mode", "codexpath": "codex_path", "zebra": ""} {
		assert.Equal(t, want, Nearest(key, keys), key)
	}
}
