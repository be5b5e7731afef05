package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/internal/cli"
)

// A person who starts it by hand learns which unit it is for; a name that no worker can have is a fault of the settings.
func TestByHand(t *testing.T) {
	var said bytes.Buffer
	assert.Equal(t, cli.Usage, run(t.Context(), nil, &said))
	assert.Contains(t, said.String(), "systemctl cat codex-broker@.service")
	said.Reset()
	assert.Equal(t, cli.Config, run(t.Context(), []string{"../x"}, &said))
	assert.Equal(t, "codex-proxy-broker: cannot use \"../x\" as a worker name: use 1 to 64 letters, digits, _ or -, a letter or digit "+
		"first\n", said.String())
}
