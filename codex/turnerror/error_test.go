package turnerror_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/turnerror"
)

func TestInfoForms(t *testing.T) {
	for in, want := range map[string]turnerror.Info{
		`"other"`: {Kind: "other"},
		`null`:    {},
		`{"httpConnectionFailed":{"httpStatusCode":502}}`:  {Kind: "httpConnectionFailed", HTTPStatus: 502},
		`{"httpConnectionFailed":{"httpStatusCode":null}}`: {Kind: "httpConnectionFailed"},
		`{"future":{"httpStatusCode":"x"}}`:                {Kind: "future"},
		`{"future":3}`:                                     {Kind: "future"},
		`{"a":1,"b":2}`:                                    {Kind: "other"},
		`17`:                                               {Kind: "other"},
	} {
		var e turnerror.Error
		require.NoError(t, json.Unmarshal([]byte(`{"message":"m","codexErrorInfo":`+in+`}`), &e))
		assert.Equal(t, want, e.Info, in)
	}
}

// A codex before 0.169 has the status in its text alone.
func TestStatusInTheText(t *testing.T) {
	for text, want := range map[string]turnerror.Info{
		`{"message":"unexpected status 502 Bad Gateway: x, url: http://x","codexErrorInfo":"other"}`: {
			Kind: "httpConnectionFailed", HTTPStatus: 502},
		`{"message":"unexpected status of the moon","codexErrorInfo":"other"}`:        {Kind: "other"},
		`{"message":"unexpected status 429 x","codexErrorInfo":"usageLimitExceeded"}`: {Kind: "usageLimitExceeded"},
	} {
		var e turnerror.Error
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		assert.Equal(t, want, e.Info, text)
	}
}
