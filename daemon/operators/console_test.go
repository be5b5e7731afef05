package operators

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/proxy/auth"
)

// A host that is cut off from its database judges no key by a list that is too old, and none that is not in it.
func TestConsoleKeysOfADatabase(t *testing.T) {
	secret, line, err := auth.Generate("phone")
	require.NoError(t, err)
	for _, tc := range []struct {
		age    time.Duration
		ask    string
		status int
	}{
		{0, `{"key":"` + secret + `"}`, 200},
		{0, `{"key":"sk-other"}`, 200},
		{time.Minute, `{"key":"` + secret + `"}`, 200},
		{time.Minute, `{"name":"phone"}`, 200},
		{time.Minute, `{"key":"sk-other"}`, 503},
		{time.Minute, `{"name":"other"}`, 503},
		{2 * time.Hour, `{"key":"` + secret + `"}`, 503},
		{2 * time.Hour, `{"name":"phone"}`, 503},
	} {
		keys, err := auth.Parse(strings.NewReader(line + " console=operate\n"))
		require.NoError(t, err)
		keys.Confirm(time.Now().Add(-tc.age), time.Hour)
		w := httptest.NewRecorder()
		consoleKeys(keys)(w, httptest.NewRequest(http.MethodPost, "/v1/console", strings.NewReader(tc.ask)))
		assert.Equal(t, tc.status, w.Code, "%v %s: %s", tc.age, tc.ask, w.Body)
	}
}
