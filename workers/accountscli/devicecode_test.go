package accountscli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeviceCode(t *testing.T) {
	const talk = "Follow these steps to sign in with ChatGPT using device code authorization:\n\n" +
		"1. Open this link in your browser and sign in to your account\n   \x1b[94mhttps://auth.openai.com/codex/device\x1b[0m\n\n" +
		"2. Enter this one-time code \x1b[90m(expires in 15 minutes)\x1b[0m\n   \x1b[94mABCD-12345\x1b[0m\n\nDevice codes are a common phishing target.\n"
	var people, machine bytes.Buffer
	d := &deviceTalk{people: &people, json: &machine}
	for i := range len(talk) { // in any pieces
		_, err := d.Write([]byte(talk[i : i+1]))
		require.NoError(t, err)
	}
	assert.Equal(t, talk, people.String())
	assert.JSONEq(t, `{"url":"https://auth.openai.com/codex/device","code":"ABCD-12345"}`, machine.String())

	machine.Reset()
	d = &deviceTalk{people: &people, json: &machine}
	for range 3 {
		_, err := d.Write(bytes.Repeat([]byte("x"), maxTalk))
		require.NoError(t, err)
	}
	assert.Empty(t, machine.String())
	assert.Len(t, d.text, maxTalk, "a bound")
}
