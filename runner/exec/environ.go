package exec

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
)

// inherited are the variables that a command inherits from its unit. All others are about the unit's main process.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "CREDENTIALS_DIRECTORY"}

// variables returns the variables of a command, sorted: the inherited ones of environ, and added, which precede.
func variables(environ []string, added map[string]string) []string {
	env := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(inherited, name) {
			env[name] = value
		}
	}
	maps.Copy(env, added)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// variable returns the value of name in env, or "".
func variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// with returns env with another value of name.
func with(env []string, name, value string) []string {
	other := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(other, name+"="+value)
}

// readSecrets returns the secrets of the session, to be hidden in its log; nil without secrets.
func readSecrets(credentials string) (*logs.Secrets, error) {
	if credentials == "" {
		return logs.NewSecrets(nil)
	}
	values := map[string][]byte{}
	entries, err := os.ReadDir(credentials)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secrets: %w", err)
	}
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), paths.CredentialPrefix)
		if !ok {
			continue
		}
		value, err := fs.ReadFile(os.DirFS(credentials), filepath.Base(entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("cannot read the secret %s: %w", name, err)
		}
		values[name] = value
	}
	return logs.NewSecrets(values)
}
