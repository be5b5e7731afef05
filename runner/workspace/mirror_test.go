package workspace

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mirrorOf(t testing.TB, url string) Mirror {
	return Mirror{Dir: filepath.Join(t.TempDir(), "mirror.git"), URL: url, Time: bound, Bytes: 1 << 30}
}

func resolved(t testing.TB, m Mirror, ref string) string {
	t.Helper()
	commit, err := Resolve(t.Context(), m.Dir, ref)
	require.NoError(t, err)
	return commit
}

func TestFetchFollowsTheOrigin(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"a": "1"})
	o.git("branch", "gone")
	o.git("tag", "-a", "-m", "one", "v1")
	m := mirrorOf(t, o.url())
	require.NoError(t, m.Fetch(t.Context()))
	for _, ref := range []string{"", "main", "gone", "v1", "refs/heads/main", first, first[:9]} {
		assert.Equal(t, first, resolved(t, m, ref), ref)
	}

	o.git("branch", "-D", "gone")
	o.git("checkout", "-q", "-b", "trunk")
	o.git("commit", "-q", "--amend", "--allow-empty", "-m", "forced")
	second := o.git("rev-parse", "HEAD")
	o.git("branch", "-f", "main")
	require.NoError(t, m.Fetch(t.Context()))
	assert.Equal(t, second, resolved(t, m, "main"), "a forced push moves the branch")
	assert.Equal(t, second, resolved(t, m, ""), "the default branch is trunk now")
	assert.Equal(t, first, resolved(t, m, first), "a session may still use it")
	_, err := Resolve(t.Context(), m.Dir, "gone")
	var unknown *UnknownRefError
	require.ErrorAs(t, err, &unknown)
	_, err = Resolve(t.Context(), m.Dir, "trnk")
	require.EqualError(t, err, `the repository has no branch, tag or commit "trnk": do you mean trunk?`)
	for _, ref := range []string{"--all", "-h", "main:a", "a b", "..", "\x00"} {
		_, err = Resolve(t.Context(), m.Dir, ref)
		assert.Error(t, err, ref)
	}
}

// TestManyFetches keeps a mirror from growing a pack or a loose file with each.
func TestManyFetches(t *testing.T) {
	o := newOrigin(t)
	m := mirrorOf(t, o.url())
	for i := range 20 {
		o.commit(map[string]string{"a": strconv.Itoa(i)})
		require.NoError(t, m.Fetch(t.Context()))
	}
	packs, err := filepath.Glob(filepath.Join(m.Dir, "objects/pack/*.pack"))
	require.NoError(t, err)
	assert.Less(t, len(packs), 8)
}

func TestFetchBounds(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"a": "1"})
	m := mirrorOf(t, o.url())
	require.NoError(t, m.Fetch(t.Context()))
	random := make([]byte, 4<<20)
	for i := range random {
		random[i] = byte(i * i >> 7 * i >> 3)
	}
	noise := exec.Command("openssl", "enc", "-aes-128-ctr", "-K", strings.Repeat("1", 32), "-iv", strings.Repeat("2", 32))
	noise.Stdin = bytes.NewReader(random)
	big, err := noise.Output()
	require.NoError(t, err)
	o.commit(map[string]string{"big": string(big)})

	fresh := mirrorOf(t, o.url())
	for _, small := range []Mirror{m, fresh} {
		small.Bytes = 1 << 20
		require.ErrorIs(t, small.Fetch(t.Context()), ErrTooLarge)
	}
	assert.NoDirExists(t, fresh.Dir, "a first fetch that fails leaves no mirror")
	size, err := Size(m.Dir)
	require.NoError(t, err)
	assert.Less(t, size, int64(3<<20), "the bound is kept while the fetch goes on")
	require.NoError(t, m.Fetch(t.Context()), "a larger bound mends it")
	require.NoError(t, fresh.Fetch(t.Context()))
}

// TestFetchOfASilentServer has a server that accepts and never answers.
func TestFetchOfASilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	m := mirrorOf(t, "git://"+silent.Addr().String()+"/x")
	m.Time = 200 * time.Millisecond
	require.ErrorIs(t, m.Fetch(t.Context()), ErrTooSlow)
	assert.NoDirExists(t, m.Dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Fetch(ctx), context.Canceled)
}

func TestFetchOfNoRepository(t *testing.T) {
	m := mirrorOf(t, "file:///nonexistent/repository")
	var failed *GitError
	require.ErrorAs(t, m.Fetch(t.Context()), &failed)
	assert.Contains(t, failed.Error(), "/nonexistent/repository")
}

func TestCheckURL(t *testing.T) {
	for _, good := range []string{"https://example.com/a.git", "ssh://git@example.com:22/a", "git@example.com:a/b.git", "git://h/a",
		"http://127.0.0.1:3000/x", "file:///srv/git/a.git", "https://user@example.com/a"} {
		assert.NoError(t, CheckURL(good), good)
	}
	for _, bad := range []string{"", "a", "/srv/a", "../a", "ext::sh -c id", "ext::id", "https://u:p@example.com/a", "https:///a", "https://example.com",
		"ssh://-oProxyCommand=id/a", "-oProxyCommand=id:a", "git@-oProxyCommand=id:a", "git@h:-a", "file://host/a", "https://h/a\nb", "ftp://h/a",
		"ssh://-l@h/a", "git@h::id", "fd::17/a"} {
		assert.ErrorIs(t, CheckURL(bad), ErrURL, bad)
	}
}

func TestCredentials(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's")
	put(t, filepath.Join(dir, "git-credentials"), "https://u:t0ken@example.com\n")
	put(t, filepath.Join(dir, "ssh-key"), "key")
	m := mirrorOf(t, "https://example.com/a")
	m.Credentials, m.Lent = dir+"/", "https://example.com/"
	g := git{env: m.environment(), config: m.config()}
	out, err := g.run(t.Context(), []byte("url=https://example.com/a\n\n"), "credential", "fill")
	require.NoError(t, err)
	assert.Contains(t, string(out), "password=t0ken")
	assert.Contains(t, m.environment()[0], `-i '`+strings.ReplaceAll(dir, "'", `'\''`)+`/ssh-key'`)
	assert.NotContains(t, m.environment()[0], "UserKnownHostsFile")
	assert.Contains(t, m.config(), "http.followRedirects=false")

	m.URL = "https://example.org/a"
	assert.NotContains(t, strings.Join(append(m.environment(), m.config()...), " "), dir)
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		prefix, url string
		want        bool
	}{
		{"https://h/team", "https://h/team", true},
		{"https://h/team", "https://h/team/a/b.git", true},
		{"https://h/team/", "https://h/team/a", true},
		{"git@h:", "git@h:a", true},
		{"git@h:team", "git@h:team/a", true},
		{"https://h/team", "https://h/teams", false},
		{"https://h/team", "https://h/team.git", false},
		{"https://h/team", "https://h/other", false},
		{"https://h/", "http://h/a", false},
		{"https://h/", "https://h@g/a", false},
		{"https://h/team", "https://h/team/../other", false},
		{"https://h/team", "https://h/team/a%2f..%2F%2e./other", false},
		{"git@h:team", "git@h:team/../other", false},
		{"", "https://h/a", false},
		{"", "/a", false},
	} {
		assert.Equal(t, c.want, Covers(c.prefix, c.url), c)
	}
}

func TestBundle(t *testing.T) {
	o := newOrigin(t)
	first := o.commit(map[string]string{"a": "1"})
	second := o.commit(map[string]string{"b": "2"})
	ran := filepath.Join(t.TempDir(), "ran")
	o.git("config", "core.fsmonitor", ": >"+ran)
	o.git("config", "uploadpack.packObjectsHook", ": >"+ran)
	m := mirrorOf(t, "")
	send := func(dir, commit string, has ...string) error {
		t.Helper()
		return sendBundle(t, m, dir, commit, has...)
	}
	require.NoError(t, send(o.dir, first))
	assert.Equal(t, first, resolved(t, m, ""))
	unknown := strings.Repeat("1", 40)
	require.NoError(t, send(o.dir, second, first, unknown), "less what the mirror has")
	assert.Equal(t, second, resolved(t, m, ""))
	require.ErrorIs(t, send(o.dir, second, second), ErrNothingNew)
	assert.NoFileExists(t, ran, "nothing of the repository's configuration runs")
	linked := filepath.Join(t.TempDir(), "linked")
	o.git("worktree", "add", "-q", "-b", "side", linked)
	third := origin{t, linked}.commit(map[string]string{"c": "3"})
	require.NoError(t, send(linked, third, second), "a linked work tree")
	require.NoError(t, send(filepath.Join(o.dir, ".git"), first), "back")
	require.ErrorContains(t, send(t.TempDir(), first), "is no git repository that this user can read")

	s := slot(t, Source{m.Dir, "", first})
	s.must(t)
	s.sameAsClone(t)
}

// sendBundle sends a commit of a local repository to a mirror.
func sendBundle(t *testing.T, m Mirror, dir, commit string, has ...string) error {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "bundle"))
	require.NoError(t, err)
	defer file.Close()
	if err := WriteBundle(t.Context(), Local{Dir: dir, Commit: commit}, has, "", file); err != nil {
		return err
	}
	return m.FetchBundle(t.Context(), file.Name())
}

// The mirror has the tags of the repository and no others, also tags of commits that it has already, and of side lines.
func TestBundleOfTags(t *testing.T) {
	o, m := newOrigin(t), mirrorOf(t, "")
	first := o.commit(map[string]string{"a": "1"})
	o.git("tag", "v1")
	o.git("tag", "--annotate", "-m", "v1.1", "v1.1")
	o.git("checkout", "-q", "-b", "side")
	o.commit(map[string]string{"b": "2"})
	o.git("tag", "side-1")
	o.git("tag", "tree", o.git("rev-parse", "HEAD^{tree}"))
	o.git("checkout", "-q", "main")
	second := o.commit(map[string]string{"c": "3"})
	same := func(commit string) {
		t.Helper()
		want, err := LocalTags(t.Context(), Local{Dir: o.dir, Commit: commit})
		require.NoError(t, err)
		got, err := Tags(t.Context(), m.Dir)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	require.NoError(t, sendBundle(t, m, o.dir, second))
	same(second)
	s := slot(t, Source{m.Dir, "", second})
	s.must(t)
	tree := origin{t, s.Tree}
	assert.Equal(t, "side-1\nv1\nv1.1", tree.git("tag"))
	assert.Equal(t, "v1.1-1-g"+second[:7], tree.git("describe", "--abbrev=7"))
	assert.Equal(t, first, tree.git("rev-parse", "v1.1^{commit}"))

	o.git("tag", "v2")
	o.git("tag", "--force", "v1", second)
	o.git("tag", "--delete", "v1.1", "side-1")
	require.NoError(t, sendBundle(t, m, o.dir, second, second))
	same(second)
	s.must(t)
	assert.Equal(t, "v1\nv2", tree.git("tag"))
	assert.Equal(t, second, tree.git("rev-parse", "v1"))
	o.git("tag", "--delete", "v1", "v2")
	require.NoError(t, sendBundle(t, m, o.dir, second))
	same(second)
	names, err := LocalTags(t.Context(), Local{Dir: o.dir, Commit: second})
	require.NoError(t, err)
	assert.Empty(t, names)
}

// What CI systems check out is shallow: its workspace has the history that is there.
func TestBundleOfAShallowRepository(t *testing.T) {
	o, m := newOrigin(t), mirrorOf(t, "")
	o.commit(map[string]string{"a": "1"})
	o.commit(map[string]string{"b": "2"})
	third := o.commit(map[string]string{"c": "3"})
	o.git("tag", "v3")
	whole, err := Boundary(t.Context(), o.dir)
	require.NoError(t, err)
	assert.Empty(t, whole)
	shallow := origin{t, t.TempDir()}
	o.git("clone", "-q", "--depth=2", o.url(), shallow.dir)
	cut, err := Boundary(t.Context(), shallow.dir)
	require.NoError(t, err)
	assert.Len(t, cut, 8)
	require.NoError(t, sendBundle(t, m, shallow.dir, third))
	s := slot(t, Source{m.Dir, "", third})
	s.must(t)
	s.sameAsClone(t)
	tree := origin{t, s.Tree}
	assert.Equal(t, "2 true v3", tree.git("rev-list", "--count", "HEAD")+" "+tree.git("rev-parse", "--is-shallow-repository")+" "+tree.git("describe", "--tags"))
	fourth := shallow.commit(map[string]string{"d": "4"})
	require.NoError(t, sendBundle(t, m, shallow.dir, fourth, third))
	s.Commit = fourth
	s.must(t)
	assert.Equal(t, "3", tree.git("rev-list", "--count", "HEAD"))
	tree.git("fsck", "--no-dangling")

	// The remedy for a partial clone is right.
	o.git("config", "uploadpack.allowFilter", "true")
	partial := origin{t, t.TempDir()}
	o.git("clone", "-q", "--filter=blob:none", "--no-checkout", o.url(), partial.dir)
	require.ErrorIs(t, sendBundle(t, mirrorOf(t, ""), partial.dir, third), ErrPartial)
	partial.git("fetch", "-q", "--refetch", "--no-filter")
	require.NoError(t, sendBundle(t, mirrorOf(t, ""), partial.dir, third))
}

// The state directory of a dynamic user is a link.
func TestSizeOfALink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/real/objects", 0o700))
	require.NoError(t, os.WriteFile(dir+"/real/objects/pack", make([]byte, 1000), 0o600))
	require.NoError(t, os.Symlink("real", dir+"/link"))
	size, err := Size(dir + "/link")
	require.NoError(t, err)
	assert.EqualValues(t, 1000, size)
	size, err = Size(dir + "/none")
	require.NoError(t, err)
	assert.Zero(t, size)
}
