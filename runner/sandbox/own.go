package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codex-proxy/runner/paths"
)

// Caller is the user of this process, with the programs that the user has on the host.
type Caller struct {
	Home, Path string
	Root       bool     // user_toolchains shows it nothing
	Settings   Settings // as far as the user may read them
}

// Hint names the program that the caller has, and sessions do not see, and the line of runner.toml that shows it. It is
// "" if the caller has none, or sessions would see it.
func (c Caller) Hint(program string) string {
	path := c.find(program)
	dirs := c.toolchain(path)
	if path == "" || len(dirs) == 0 || beneath(path, visible) != "" || c.shown(dirs) {
		return ""
	}
	key := "toolchains"
	if beneath(path, append([]string{c.Home}, homes...)) == "" {
		key = "path"
	}
	var quoted []string
	for _, dir := range dirs {
		quoted = append(quoted, strconv.Quote(dir))
	}
	hint := "This host has " + path + " for you, and sessions do not find it: an administrator shows it with " + key +
		" = [" + strings.Join(quoted, ", ") + "] of [sandbox] in " + paths.Settings
	if c.own(dirs[0]) {
		hint += ", or with user_toolchains = true to each user their own"
	}
	return hint + "; then systemctl restart codex-runner."
}

// visible are the directories of PATH that sessions see.
var visible = []string{"/usr", "/bin", "/sbin"}

// find returns the path of a program by PATH and in the usual places below the home; "" if there is none.
func (c Caller) find(program string) string {
	if strings.Contains(program, "/") {
		if clean(program) && beneath(program, append([]string{c.Home}, homes...)) != "" && executable(program) {
			return program
		}
		return ""
	}
	p := Programs{Usual: c.Path, Toolchains: onHost(OfUser(c.Home, nil))}
	for _, dir := range filepath.SplitList(c.Path + string(filepath.ListSeparator) + p.Path()) {
		if path := filepath.Join(dir, program); clean(path) && executable(path) {
			return path
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// toolchain returns the directories to show for a program: none for one that lies in a home or in a place of its own.
func (c Caller) toolchain(path string) []string {
	for _, name := range ofUser {
		dir := filepath.Join(c.Home, name)
		if !within(path, dir) {
			continue
		}
		if rustup := filepath.Join(c.Home, ".rustup"); name == ".cargo/bin" && isDir(rustup) {
			return []string{dir, rustup}
		}
		return []string{dir}
	}
	dir := filepath.Dir(path)
	if (Settings{Toolchains: []string{dir}}).Check() != nil || dir == c.Home {
		return nil
	}
	return []string{dir}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// own reports whether user_toolchains shows the directory.
func (c Caller) own(dir string) bool {
	for _, name := range ofUser {
		if filepath.Join(c.Home, name) == dir {
			return !c.Root
		}
	}
	return false
}

// shown reports whether the settings show the directories.
func (c Caller) shown(dirs []string) bool {
	for _, dir := range dirs {
		if beneath(dir, append(c.Settings.Path, c.Settings.Toolchains...)) == "" &&
			(!c.Settings.UserToolchains || !c.own(dir)) {
			return false
		}
	}
	return true
}
