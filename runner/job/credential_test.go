package job

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/runner/workspace"
)

// host is a server of repositories, all of which want a credential.
type host struct {
	*httptest.Server
	mu     sync.Mutex
	opened map[string]bool // the first directories of paths that a credential came for
}

func newHost(t *testing.T, root string) *host {
	h := &host{opened: map[string]bool{}}
	git := &cgi.Handler{
		Path: filepath.Join(git(t, root, "--exec-path"), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := strings.Split(r.URL.Path, "/")[1]
		if _, _, ok := r.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.mu.Lock()
		h.opened[first] = true
		h.mu.Unlock()
		if rest, moved := strings.CutPrefix(r.URL.Path, "/team/moved/"); moved {
			http.Redirect(w, r, "/other/secret/"+rest+"?"+r.URL.RawQuery, http.StatusFound)
			return
		}
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// A fetch takes the way of the proxy in the settings.
func TestProxy(t *testing.T) {
	root := t.TempDir()
	proxy := newHost(t, root)
	git(t, root, "init", "-q", "-b", "main", "other/main")
	git(t, root+"/other/main", "commit", "-q", "--allow-empty", "-m", "first")
	credentials := filepath.Join(t.TempDir(), "lent_")
	require.NoError(t, os.WriteFile(credentials+workspace.GitCredentials, []byte("http://u:token@nowhere.invalid\n"), 0o600))
	f := files(t, Fetch{
		Version: Version, URL: "http://nowhere.invalid/other/main", Credential: "http://nowhere.invalid/other", Time: time.Minute,
		Bytes: 1 << 30, Env: map[string]string{"http_proxy": proxy.URL, "no_proxy": "", "GIT_ALLOW_PROTOCOL": "none"},
	})
	require.NoError(t, Fetch{}.Run(t.Context(), f, t.TempDir(), credentials))
	fetched := result[Fetched](t, f)
	assert.Nil(t, fetched.Failure)
	assert.Equal(t, git(t, root+"/other/main", "rev-parse", "HEAD"), fetched.Commit)
}

// A credential is for the repositories below its URL: neither .gitmodules nor a server takes it elsewhere.
func TestCredentialsOfSubmodules(t *testing.T) {
	root := t.TempDir()
	one, two := newHost(t, root), newHost(t, root)
	var logins strings.Builder
	for _, h := range []*host{one, two} {
		logins.WriteString(strings.Replace(h.URL, "http://", "http://u:token@", 1) + "\n")
	}
	credentials := filepath.Join(t.TempDir(), "lent_")
	require.NoError(t, os.WriteFile(credentials+workspace.GitCredentials, []byte(logins.String()), 0o600))
	for _, name := range []string{"team/sub", "other/secret", "team/main"} {
		git(t, root, "init", "-q", "-b", "main", name)
		git(t, filepath.Join(root, name), "commit", "-q", "--allow-empty", "-m", name)
	}
	commit := git(t, root+"/other/secret", "rev-parse", "HEAD")
	main := root + "/team/main"
	fetch := func(submodule, commit string) *Failure {
		require.NoError(t, os.WriteFile(main+"/.gitmodules", []byte("[submodule \"s\"]\npath = s\nurl = "+submodule+"\n"), 0o600))
		git(t, main, "add", ".gitmodules")
		git(t, main, "update-index", "--add", "--cacheinfo", "160000,"+commit+",s")
		git(t, main, "commit", "-q", "-m", submodule)
		f := files(t, Fetch{
			Version: Version, URL: one.URL + "/team/main", Credential: one.URL + "/team", Time: time.Minute, Bytes: 1 << 30,
		})
		require.NoError(t, Fetch{}.Run(t.Context(), f, t.TempDir(), credentials))
		return result[Fetched](t, f).Failure
	}
	assert.Nil(t, fetch("../sub", git(t, root+"/team/sub", "rev-parse", "HEAD")))
	for submodule, want := range map[string]string{
		"../../other/secret":                  "could not read Username",
		one.URL + "/other/secret":             "could not read Username",
		one.URL + "/team/../other/secret":     "could not read Username",
		one.URL + "/team/%2e%2e/other/secret": "could not read Username",
		two.URL + "/team/sub":                 "could not read Username",
		"../moved":                            "The requested URL returned error: 302",
	} {
		failure := fetch(submodule, commit)
		if assert.NotNil(t, failure, submodule) {
			assert.Contains(t, failure.Text, want, submodule)
		}
	}
	assert.Equal(t, map[string]bool{"team": true}, one.opened)
	assert.Empty(t, two.opened)
}
