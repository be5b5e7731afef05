package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner"
	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/repositories"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
	"codex-proxy/runner/workspace"
)

// fetchBed is a bed whose units of repositories fetch, each with real git.
type fetchBed struct {
	*bed
	mu     sync.Mutex
	orders []job.Fetch
	lent   []string     // files of credentials at each fetch
	origin string       // what each URL means
	before func() error // called before a fetch
	swept  chan string  // what a sweep removes
}

func newFetchBed(t *testing.T, change ...func(*runner.Settings)) *fetchBed {
	t.Helper()
	b := &fetchBed{swept: make(chan string, 100)}
	b.bed = newBed(t, append([]func(*runner.Settings){func(s *runner.Settings) {
		s.Repositories = repositories.Config{Count: 10, Disk: 1 << 30, Size: 1 << 20, Timeout: time.Minute}
		s.Environments.Timeout = time.Minute
	}}, change...)...)
	b.systemd.Play(b.play)
	return b
}

// play does what the unit does.
func (b *fetchBed) play(unit string) error {
	name := strings.TrimSuffix(unit, ".service")
	if what, ok := strings.CutPrefix(name, "codex-sweep@"); ok {
		b.swept <- what
		if key, ok := strings.CutPrefix(what, "repository-"); ok {
			return os.RemoveAll(filepath.Join(b.dir, "mirrors", key))
		}
		return nil
	}
	key := strings.TrimPrefix(name, "codex-repository@")
	dir := filepath.Join(b.settings.StateDir, paths.RepositoryDir(key))
	text, err := os.ReadFile(filepath.Join(dir, paths.Order))
	var order job.Fetch
	if err == nil {
		err = json.Unmarshal(text, &order)
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.orders = append(b.orders, order)
	before := b.before
	lent, _ := filepath.Glob(filepath.Join(b.settings.RuntimeDir, "repositories", key, "*"))
	b.lent = append(b.lent, lent...)
	b.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	if !order.Local {
		order.URL = "file://" + b.origin
	}
	return b.fetch(key, dir, order)
}

func (b *fetchBed) fetch(key, dir string, order job.Fetch) error {
	text, err := json.Marshal(order)
	if err != nil {
		return err
	}
	scratch := b.t.TempDir()
	files := job.Files{}
	for _, name := range []string{paths.OrderFile, paths.OutputFile} {
		files[name], err = os.Create(filepath.Join(scratch, name))
		if err != nil {
			return err
		}
		defer files[name].Close()
	}
	if _, err := files[paths.OrderFile].Write(text); err != nil {
		return err
	}
	if files[paths.ResultFile], err = os.Create(filepath.Join(dir, paths.Result)); err != nil {
		return err
	}
	defer files[paths.ResultFile].Close()
	if bundle, err := os.Open(filepath.Join(dir, paths.Bundle)); err == nil {
		files[paths.BundleFile] = bundle
		defer bundle.Close()
	}
	state := filepath.Join(b.dir, "mirrors", key)
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	return job.Fetch{}.Run(context.Background(), files, state, "")
}

// wait waits for a change after which done returns true.
func (b *fetchBed) wait(done func() bool) {
	b.t.Helper()
	for timeout := time.After(patience); ; {
		changed := b.Queue.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			require.FailNow(b.t, "it does not come so far")
		}
	}
}

// sessions returns how many there are.
func (b *fetchBed) sessions() int {
	b.t.Helper()
	page, err := b.Store.Sessions.List(b.t.Context(), store.Page{Viewer: store.Viewer{All: true}, Limit: 100})
	require.NoError(b.t, err)
	return len(page.Sessions)
}

// fetches returns how many units have fetched.
func (b *fetchBed) fetches() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.orders)
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// newRepository makes a repository with one commit.
func newRepository(t *testing.T) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	return dir, commitFile(t, dir, "one\n")
}

func commitFile(t *testing.T, dir, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600))
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", text)
	return git(t, dir, "rev-parse", "HEAD")
}

// send sends a commit as the command line does.
func (b *fetchBed) send(dir, commit string) wire.Repository {
	b.t.Helper()
	to, err := b.Repositories.Add(b.t.Context(), alice, wire.NewRepository{Path: dir})
	require.NoError(b.t, err)
	var bundle bytes.Buffer
	require.NoError(b.t, workspace.WriteBundle(b.t.Context(), workspace.Local{Dir: dir, Commit: commit}, to.Has, "", &bundle))
	to, err = b.Repositories.PutBundle(b.t.Context(), alice, to.Key, &bundle)
	require.NoError(b.t, err)
	return to
}

func at(repository, ref string) wire.NewSession {
	return wire.NewSession{Repository: repository, Ref: ref, Commands: []wire.NewCommand{{Args: []string{"a"}}, {Args: []string{"b"}}}}
}

const onePatch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n"

func TestLocalRepository(t *testing.T) {
	b := newFetchBed(t)
	dir, commit := newRepository(t)
	to := b.send(dir, commit)
	assert.Equal(t, []any{dir, []string{wire.TagsMark, commit}}, []any{to.Path, to.Has})
	assert.Positive(t, to.Bytes)
	n := at(to.Key, commit)
	n.Patch = onePatch
	s, err := b.Create(t.Context(), alice, n)
	require.NoError(t, err)
	assert.Equal(t, []string{dir, commit, commit}, []string{s.Repository, s.Ref, s.Commit})
	assert.Len(t, s.Patch, 64)
	assert.Equal(t, 1, b.fetches(), "a commit that is known needs no fetch")
	u := b.started()
	assert.Equal(t, &session.Workspace{Commit: commit}, u.Spec.Workspace)
	assert.Equal(t, to.Key, u.Spec.Repository)
	text, err := os.ReadFile(filepath.Join(b.settings.StateDir, paths.SessionDir(s.ID), paths.Patch))
	require.NoError(t, err)
	assert.Equal(t, onePatch, string(text))
	u.End(exit(0))
	u = b.started()
	assert.Nil(t, u.Spec.Workspace, "the next command finds the workspace as it is")
	assert.Equal(t, to.Key, u.Spec.Repository)
	u.End(exit(0))

	second := commitFile(t, dir, "two\n")
	to = b.send(dir, second)
	assert.ElementsMatch(t, []string{wire.TagsMark, commit, second}, to.Has)
	plan, err := b.Plan(t.Context(), alice, at(to.Key, second))
	require.NoError(t, err)
	assert.Equal(t, []string{second, dir}, []string{plan.Commit, plan.Workspace})
	list, err := b.Repositories.List(t.Context(), alice)
	require.NoError(t, err)
	assert.Equal(t, []wire.Repository{to}, list.Repositories)

	bob := wire.Owner{UID: 1001, Name: "bob"}
	_, err = b.Create(t.Context(), bob, at(to.Key, commit))
	assertCode(t, wire.NotFound, err)
	_, err = b.Repositories.PutBundle(t.Context(), bob, to.Key, strings.NewReader(""))
	assertCode(t, wire.NotFound, err)
	list, err = b.Repositories.List(t.Context(), bob)
	require.NoError(t, err)
	assert.Empty(t, list.Repositories)
	other, err := b.Repositories.Add(t.Context(), bob, wire.NewRepository{Path: dir})
	require.NoError(t, err)
	assert.NotEqual(t, to.Key, other.Key)
	_, err = b.Create(t.Context(), bob, at(other.Key, commit))
	assert.ErrorContains(t, err, "the service has no commits of "+dir)
	assertCode(t, wire.RepositoryFailed, err)
}

func assertCode(t *testing.T, want wire.Code, err error) {
	t.Helper()
	var refused *wire.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, want, refused.Code, refused.Error())
	assert.NotEmpty(t, refused.Remedy)
}

func TestBadBundles(t *testing.T) {
	b := newFetchBed(t)
	to, err := b.Repositories.Add(t.Context(), alice, wire.NewRepository{Path: "/srv/x"})
	require.NoError(t, err)
	for code, body := range map[wire.Code]io.Reader{
		wire.RepositoryFailed: strings.NewReader("no bundle"),
		wire.TooLarge:         io.LimitReader(zeros{}, 1<<20+1),
		wire.InvalidRequest:   io.MultiReader(strings.NewReader("x"), failing{io.ErrUnexpectedEOF}),
	} {
		_, err := b.Repositories.PutBundle(t.Context(), alice, to.Key, body)
		assertCode(t, code, err)
	}
	left, err := filepath.Glob(filepath.Join(b.settings.StateDir, paths.RepositoryDir(to.Key), "[ub]*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

const originURL = "https://git.example.org/team/app"

func TestURL(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("https://u:token@git.example.org"), 0o600))
	b := newFetchBed(t, func(s *runner.Settings) {
		s.Repositories.Credentials = []repositories.Credential{
			{URL: "https://git.example.org/", Users: []string{"bob"}, Files: map[string]string{workspace.SSHKey: secret}},
			{URL: "https://git.example.org/team", Users: []string{"alice"}, Files: map[string]string{workspace.GitCredentials: secret}},
		}
	})
	var commit string
	b.origin, commit = newRepository(t)
	s, err := b.Create(t.Context(), alice, at(originURL, ""))
	require.NoError(t, err)
	assert.Equal(t, []string{originURL, "", commit}, []string{s.Repository, s.Ref, s.Commit})
	assert.Equal(t, &session.Workspace{URL: originURL, Commit: commit}, b.started().Spec.Workspace)
	require.Len(t, b.lent, 1)
	assert.Equal(t, workspace.GitCredentials, filepath.Base(b.lent[0]))
	assert.NoFileExists(t, b.lent[0], "it goes with the fetch")
	assert.Equal(t, "https://git.example.org/team", b.orders[0].Credential)

	second := commitFile(t, b.origin, "two\n")
	s, err = b.Create(t.Context(), alice, at(originURL, "main"))
	require.NoError(t, err)
	assert.Equal(t, second, s.Commit, "a branch may have moved")
	_, err = b.Create(t.Context(), alice, at(originURL, commit))
	require.NoError(t, err)
	assert.Equal(t, 2, b.fetches(), "a commit has not")

	_, err = b.Create(t.Context(), alice, at(originURL, "mian"))
	assertCode(t, wire.UnknownRef, err)
	assert.ErrorContains(t, err, `no branch, tag or commit "mian": do you mean main?`)
	b.origin += "/none"
	_, err = b.Plan(t.Context(), alice, at(originURL, "main"))
	assertCode(t, wire.RepositoryFailed, err)
	assert.ErrorContains(t, err, "does not appear to be a git repository", "git's own words")
	b.before = func() error { return errors.New("the unit failed") }
	_, err = b.Create(t.Context(), alice, at(originURL, "main"))
	assertCode(t, wire.Unavailable, err)
	assert.ErrorContains(t, err, "the unit failed")
	assert.Equal(t, 3, b.sessions(), "no session was made for a request that failed")
}

func TestRefusedSources(t *testing.T) {
	b := newFetchBed(t)
	for want, n := range map[string]wire.NewSession{
		"the service fetches no file URL: name the directory": at("file:///srv/x", ""),
		"this URL cannot be fetched":                          at("ext::sh", ""),
		"it has a password, which logs would show":            at("https://u:p@h/x", ""),
		"leaves a directory: write it without ..":             at("https://h/a/../b", ""),
		"the URL git@h:a/../b leaves a directory":             at("git@h:a/../b", ""),
		"the URL https://h/a/%2e%2E/b leaves a directory":     at("https://h/a/%2e%2E/b", ""),
		"a ref and a patch are of a repository":               at("", "main"),
		"there is no repository 0123456789abcdef of yours":    at("0123456789abcdef", "main"),
	} {
		_, err := b.Create(t.Context(), alice, n)
		assert.ErrorContains(t, err, want)
	}
	for _, n := range []wire.NewRepository{{}, {Path: "srv"}, {Path: "/srv/../x"}, {URL: strings.Repeat("x", 5000)}} {
		_, err := b.Repositories.Add(t.Context(), alice, n)
		assertCode(t, wire.InvalidRequest, err)
	}
	for want, patch := range map[string]string{
		"it changes no file: make the patch with": "x",
		`line 1 of the patch, file "../x"`:        "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n",
		"/etc/passwd":                             "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
	} {
		n := at(originURL, "main")
		n.Patch = patch
		_, err := b.Create(t.Context(), alice, n)
		assertCode(t, wire.PatchInvalid, err)
		assert.ErrorContains(t, err, want)
	}
	assert.Zero(t, b.fetches(), "nothing was started")
}
