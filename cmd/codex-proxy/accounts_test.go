package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/workers/accounts"
)

func TestAccountsTakesNoNonsense(t *testing.T) {
	for _, args := range [][]string{
		nil, {"lst"}, {"list", "default"}, {"list", "--purge"}, {"login", "a", "b"}, {"login", "--purge"},
		{"add"}, {"add", "a", "--with-api-key"}, {"add", "a", "--json"}, {"remove"}, {"remove", "a", "--with-api-key"},
		{"switch"}, {"switch", "a", "b"}, {"pause"}, {"pause", "--json", "a"}, {"resume"}, {"resume", "a", "--watch"},
		{"login", "--watch"},
	} {
		got := try(t, append([]string{"accounts"}, args...)...)
		assert.Equal(t, exitUsage, got.status, args)
		assert.Empty(t, got.stdout)
		assert.Contains(t, got.stderr, "codex-proxy accounts", args)
	}
	got := try(t, "accounts", "add", "../x")
	assert.Equal(t, exitFailure, got.status)
	assert.Contains(t, got.stderr, "codex-proxy accounts add: ")
}

// An order for an account goes to the daemon alone: there is no other place for it.
func TestAccountOrdersNeedTheDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	socket := filepath.Join(t.TempDir(), "none")
	for _, order := range []string{"switch", "pause", "resume"} {
		got := try(t, "accounts", order, "a", "--socket", socket)
		assert.Equal(t, exitFailure, got.status)
		assert.Contains(t, got.stderr, "codex-proxy is not running")
	}
}

// Each help states how a pause differs from a drain.
func TestHelpTellsAPauseFromADrain(t *testing.T) {
	words := func(args ...string) string { return strings.Join(strings.Fields(try(t, args...).stdout), " ") }
	assert.Contains(t, words("drain", "--help"), "A drain is of the worker and ends with the service, whereas "+
		"codex-proxy accounts pause is of the account and survives restarts of the service.")
	assert.Contains(t, words("accounts", "--help"), "A pause is of the account and survives restarts of the service, "+
		"whereas codex-proxy drain is of the worker and ends with the service.")
}

// From the command line to the daemon: pause, resume, switch and their errors, and the
// completion of the name.
func TestAccountOrdersReachTheDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	socket := filepath.Join(shortDir(t), "socket")
	state := t.TempDir()
	t.Setenv("STATE_DIRECTORY", state)
	s := serving(t, "control_socket="+socket)
	s.worker(t, &appservertest.Server{Handler: appservertest.Reply("hello")})
	s.note(t, "READY=1")
	order := func(words ...string) result {
		return try(t, append(append([]string{"accounts"}, words...), "--socket", socket)...)
	}
	for _, command := range []string{"switch", "pause", "resume"} {
		assert.Contains(t, try(t, "__complete", "accounts", command, "--socket", socket, "").stdout, "default\n")
	}
	ask := func() int {
		resp, err := s.chat(t)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	assert.Equal(t, http.StatusOK, ask())
	paused := order("pause", "default")
	require.Zero(t, paused.status, paused.stderr)
	assert.Contains(t, paused.stderr, "The account default gets no new turns until codex-proxy accounts resume default.\n")
	assert.Contains(t, paused.stderr, "No account is left that serves")
	s.line(t, `"msg":"account paused"`)
	assert.Equal(t, http.StatusServiceUnavailable, ask(), "also without rotation")
	require.Eventually(t, func() bool {
		saved, err := accounts.ReadFile(filepath.Join(state, accounts.FileName))
		return err == nil && saved.Accounts["default"].Paused
	}, bound, 10*time.Millisecond, "it survives the service")
	assert.Contains(t, order("pause", "defaults").stderr, `no such account: "defaults"; there are default`)
	assert.Contains(t, order("switch", "default").stderr, `the rotation is "off", in which no account is the one in use: set rotation = "ordered"`)
	assert.Equal(t, result{stderr: "The account default may get turns again.\n"}, order("resume", "default"))
	s.line(t, `"msg":"account resumed"`)
	assert.Equal(t, http.StatusOK, ask())
}
