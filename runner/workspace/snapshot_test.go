package workspace

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A checkout of a snapshot has its files, and its parent as the commit.
func TestCheckoutOfASnapshot(t *testing.T) {
	o := newOrigin(t)
	base := o.commit(map[string]string{"file": "one", "gone": "one", "same": "one"})
	put(t, filepath.Join(o.dir, "file"), "two")
	put(t, filepath.Join(o.dir, "new"), "new")
	o.git("rm", "--quiet", "gone")
	o.git("add", "--all")
	tree := o.git("write-tree")
	snapshot := o.git("-c", "user.name="+SnapshotName, "-c", "user.email="+SnapshotEmail, "commit-tree", "-p", base, "-F",
		message(t, SnapshotMessage), tree)
	first := o.git("-c", "user.name="+SnapshotName, "-c", "user.email="+SnapshotEmail, "commit-tree", "-F",
		message(t, SnapshotMessage), tree)
	other := o.git("commit-tree", "-p", base, "-F", message(t, SnapshotMessage), tree)
	for name, commit := range map[string]string{"snapshot": snapshot, "first": first, "other": other} {
		o.git("branch", name, commit)
	}
	w := slot(t, Source{Mirror: o.mirror(), URL: o.url()})
	for _, c := range []struct{ commit, head, status string }{
		{snapshot, base, " M file\n D gone\n?? new\n"},
		{other, other, ""},
		{first, "HEAD", "?? file\n?? new\n?? same\n"},
		{base, base, ""},
	} {
		t.Log(c.commit)
		w.Commit = c.commit
		w.must(t)
		head, err := Git(t.Context(), w.Tree, nil, "rev-parse", "--verify", "--quiet", "HEAD")
		if c.head == "HEAD" {
			require.Error(t, err, "there is no commit")
		} else {
			assert.Equal(t, c.head+"\n", string(head))
		}
		status, err := Git(t.Context(), w.Tree, nil, "status", "--porcelain", "--no-renames")
		require.NoError(t, err)
		assert.Equal(t, c.status, string(status))
	}
}

func message(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "message")
	put(t, file, text)
	return file
}
