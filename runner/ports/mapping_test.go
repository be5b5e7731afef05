package ports

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Mapping{
		"8080": {8080, 8080}, "3000:8080": {3000, 8080}, "0:65535": {0, 65535}, "65535:1": {65535, 1},
	} {
		m, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, m, text)
	}
	for text, want := range map[string]string{
		"": "want PORT or LOCAL:PORT", "0": "want PORT or LOCAL:PORT", "65536": "want PORT", "-1": "want PORT",
		"3000:0": "want PORT", "3000:": "want PORT", "1:2:3": "want PORT", "a:80": "want a LOCAL port of 0 to 65535",
		":80": "want a LOCAL port", "70000:80": "want a LOCAL port", "127.0.0.1:80": "want a LOCAL port",
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
	assert.Equal(t, "http://127.0.0.1:3000 -> port 8080 of session x", Mapping{3000, 8080}.Line("x"))
}
