package proxy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/openai"
)

// No client gets a 401 for its key because a database is away.
func TestKeysOfADatabase(t *testing.T) {
	key, line, err := auth.Generate("alice")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		age   time.Duration
		token string
		want  string
	}{
		"known":                {0, key, ""},
		"unknown":              {0, "sk-other", "invalid_api_key"},
		"known, away":          {time.Minute, key, ""},
		"unknown, away":        {time.Minute, "sk-other", "keys_outdated"},
		"none, away":           {time.Minute, "", "invalid_api_key"},
		"known, away too long": {2 * time.Hour, key, "keys_outdated"},
		"none, away too long":  {2 * time.Hour, "", "keys_outdated"},
	} {
		keys := &auth.Keys{}
		require.NoError(t, keys.Replace(line+"\n"))
		keys.Confirm(time.Now().Add(-tc.age), time.Hour)
		r := httptest.NewRequest(http.MethodGet, "/v1/models", nil)
		if tc.token != "" {
			r.Header.Set("Authorization", "Bearer "+tc.token)
		}
		_, err := access(keys, Route{Access: Keyed}, r)
		var refused *openai.Error
		if tc.want == "" {
			assert.NoError(t, err, name)
		} else if assert.True(t, errors.As(err, &refused), name) {
			assert.Equal(t, tc.want, refused.Code, name)
		}
	}
}
