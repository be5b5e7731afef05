package prepare

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/dependencies/dependencyconfig"
)

// What is not there is named before the start, because no restart mends it.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	settings := func(program string, directories ...string) *dependencyconfig.Settings {
		return &dependencyconfig.Settings{
			File: "/etc/x.toml", Name: "x", Command: []string{program}, Directories: directories,
		}
	}
	assert.Empty(t, missing(settings("/bin/sh", dir)))
	assert.Empty(t, missing(settings("a-name-on-the-path")))
	assert.Equal(t, "/etc/x.toml: command: there is no program "+none+": install it, or name its path, and run "+
		"`systemctl daemon-reload`", missing(settings(none)))
	assert.Equal(t, "/etc/x.toml: directories: "+none+" is not a directory: make it, and give it to the user cd-x",
		missing(settings("/bin/sh", dir, none)))
}
