package prepare

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/paths"
)

// The session sees the users of the host below its own, which has a home. A list of the host that is missing is empty.
func TestAccount(t *testing.T) {
	b := newBed(t)
	require.NoError(t, os.MkdirAll(b.Etc, 0o755))
	s, err := b.session(id)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(s.dir(), 0o755))
	require.NoError(t, os.WriteFile(b.Etc+"/passwd", []byte("root:x:0:0::/root:/bin/sh"), 0o644))
	require.NoError(t, s.lendAccount(1001))
	passwd, err := os.ReadFile(s.dir() + "/" + paths.Passwd)
	require.NoError(t, err)
	assert.Regexp(t, `^cs-`+id+`:x:\d+:\d+:session of codex-runner:`+paths.Home+`:/bin/(ba)?sh\nroot:x:0:0::/root:/bin/sh$`,
		string(passwd))
	group, err := os.ReadFile(s.dir() + "/" + paths.Group)
	require.NoError(t, err)
	assert.Regexp(t, `^cs-`+id+`:x:\d+:\n$`, string(group))

	// The full name is the one of the user whose session it is.
	for entry, want := range map[string]string{
		"alice:x:1001:1001:Alice A.,Room 1:/home/alice:/bin/sh\n": "Alice A.", "bob:x:1001:1001::/home/bob:/bin/sh": "bob",
	} {
		require.NoError(t, os.WriteFile(b.Etc+"/passwd", []byte(entry), 0o644))
		require.NoError(t, s.lendAccount(1001))
		passwd, err := os.ReadFile(s.dir() + "/" + paths.Passwd)
		require.NoError(t, err)
		assert.Equal(t, want, strings.Split(string(passwd), ":")[4])
	}

	require.NoError(t, os.Truncate(b.Etc+"/passwd", maxAccounts+1))
	assert.ErrorContains(t, s.lendAccount(1001), "shorten it")
}
