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
		file, err := os.Create(filepath.Join(t.TempDir(), "bundle"))
		require.NoError(t, err)
		defer file.Close()
		if err := WriteBundle(t.Context(), dir, commit, has, file); err != nil {
			return err
		}
		return m.FetchBundle(t.Context(), file.Name())
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

	shallow := t.TempDir()
	o.git("clone", "-q", "--depth=1", o.url(), shallow)
	require.ErrorIs(t, send(shallow, second), ErrShallow)

	s := slot(t, Source{m.Dir, "", first})
	s.must(t)
	s.sameAsClone(t)
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
