package dependenciescheck

import (
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/dependencies/dependencyconfig"
)

func TestFaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	me, err := user.Current()
	require.NoError(t, err)
	for _, tc := range []struct {
		change func(*dependencyconfig.Settings)
		want   []string
	}{
		{func(*dependencyconfig.Settings) {}, nil},
		{func(s *dependencyconfig.Settings) { s.User = me.Username }, nil},
		{func(s *dependencyconfig.Settings) { s.Command[0] = "sh" }, nil},
		{func(s *dependencyconfig.Settings) { s.Command[0], s.Environment["PATH"] = "sh", dir },
			[]string{"command: sh: there is no such program in " + dir + ": install it, or name its path"}},
		{func(s *dependencyconfig.Settings) { s.Command[0] = plain },
			[]string{"command: " + plain + ": it is not executable"}},
		{func(s *dependencyconfig.Settings) { s.Prepare = []string{"/no/such"} },
			[]string{"prepare: /no/such: there is no such program: name the path of the one to run"}},
		{func(s *dependencyconfig.Settings) { s.Directories = []string{dir} }, nil},
		{func(s *dependencyconfig.Settings) { s.Directories = []string{plain} },
			[]string{"directories: " + plain + ": it is no directory"}},
		{func(s *dependencyconfig.Settings) { s.Directories = []string{dir + "/x"} }, []string{"directories: " + dir +
			"/x: there is no such directory: make it, for the user that the dependency runs as"}},
		{func(s *dependencyconfig.Settings) {
			s.Credentials = map[string]string{"b": "/no", "a": dir, "c": plain}
		},
			[]string{"credentials.a: " + dir + ": it is no file",
				"credentials.b: /no: there is no such file: make it"}},
		{func(s *dependencyconfig.Settings) { s.Probe.CA = "/no" },
			[]string{"probe.ca: /no: there is no such file: make it"}},
	} {
		s := &dependencyconfig.Settings{Command: []string{"/bin/sh"}, Environment: map[string]string{}}
		tc.change(s)
		assert.Equal(t, tc.want, Faults(s))
	}
}
