package workspace

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeGit makes the repository of a module anew, below the directory .git that this package has just made. It has the
// commit as a detached HEAD, the branches of the mirror as branches of the remote origin, its tags, and borrows all
// objects from the mirror. It is shallow if the mirror is. It has no hooks.
func (m module) writeGit() error {
	dir := m.git.dir
	for _, sub := range []string{"objects/info", "refs/heads", "refs/tags", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), dirMode); err != nil {
			return err
		}
	}
	refs, err := packedRefs(m.source.Mirror)
	if err != nil {
		return err
	}
	files := []struct {
		name string
		data []byte
	}{
		{"HEAD", []byte(m.source.Commit + "\n")},
		{"objects/info/alternates", []byte(filepath.Join(m.source.Mirror, "objects") + "\n")},
		{"config", []byte(m.config())},
		{"packed-refs", refs},
	}
	if shallow, err := os.ReadFile(filepath.Join(m.source.Mirror, "shallow")); err == nil {
		files = append(files, struct {
			name string
			data []byte
		}{"shallow", shallow})
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (m module) config() string {
	var b strings.Builder
	version, extension := 0, ""
	if len(m.source.Commit) == 64 {
		version, extension = 1, "[extensions]\n\tobjectFormat = sha256\n"
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n", version)
	if m.prefix != "" {
		up, err := filepath.Rel(m.git.dir, m.git.tree)
		if err == nil {
			fmt.Fprintf(&b, "\tworktree = %s\n", quote(up))
		}
	}
	b.WriteString(extension)
	if m.source.URL != "" {
		fmt.Fprintf(&b, "[remote \"origin\"]\n\turl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
			quote(m.source.URL))
	}
	return b.String()
}

// activate has the commands of git submodule work on the submodules, as after git submodule init.
func (m module) activate(subs []Submodule) error {
	if len(subs) == 0 {
		return nil
	}
	config := m.config()
	for _, sub := range subs {
		config += fmt.Sprintf("[submodule %s]\n\tactive = true\n\turl = %s\n", quote(sub.Name), quote(sub.URL))
	}
	return os.WriteFile(filepath.Join(m.git.dir, "config"), []byte(config), 0o644)
}

// quote writes a value of git's configuration, which has no control characters.
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// packedRefs returns the refs of a mirror as a clone of it would have them. Each fetch packs them.
func packedRefs(mirror string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(mirror, "packed-refs"))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	out := bytes.NewBufferString("# pack-refs with: peeled\n")
	keep := false
	for line := range bytes.Lines(data) {
		_, name, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		switch {
		case line[0] == '^': // the object of the tag above
		case bytes.HasPrefix(name, []byte("refs/heads/")):
			line, keep = bytes.Replace(line, []byte("refs/heads/"), []byte("refs/remotes/origin/"), 1), true
		default:
			keep = bytes.HasPrefix(name, []byte("refs/tags/"))
		}
		if keep {
			out.Write(line)
		}
	}
	return out.Bytes(), nil
}
