package codexcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/copies"
	"codex-proxy/codex/versions"
)

// bed has codex 0.171.0 in use, and 0.172.0 installed.
type bed struct {
	*Orders
	t   *testing.T
	out *bytes.Buffer
	old copies.Copy
}

func newBed(t *testing.T) *bed {
	dir := t.TempDir()
	for _, at := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(at, 0o755)) //nolint:gosec // of the test
	}
	b := &bed{t: t, out: &bytes.Buffer{}}
	b.Orders = &Orders{Store: copies.At(filepath.Join(dir, "copies"), filepath.Join(dir, "runs")), Policy: copies.Follow,
		Program: filepath.Join(dir, "npm/bin/codex"), Out: b.out}
	b.install("0.171.0")
	c, err := b.Store.Choose(t.Context(), copies.Start{Unit: "codex-worker@default.service", Program: b.Program, Policy: copies.Follow})
	require.NoError(t, err)
	b.old = c
	b.install("0.172.0")
	return b
}

func (b *bed) install(version string) {
	b.t.Helper()
	npm := filepath.Dir(filepath.Dir(b.Program))
	require.NoError(b.t, os.RemoveAll(npm))
	require.NoError(b.t, os.MkdirAll(filepath.Join(npm, "bin"), 0o755))
	require.NoError(b.t, os.WriteFile(b.Program, []byte("codex "+version), 0o755)) //nolint:gosec // a program
	require.NoError(b.t, os.WriteFile(filepath.Join(npm, "codex-package.json"), []byte(`{"version":"`+version+`"}`), 0o600))
}

// page is the list, with the times of copies replaced.
func (b *bed) page() string {
	b.t.Helper()
	b.out.Reset()
	require.NoError(b.t, b.List())
	return regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d`).ReplaceAllString(b.out.String(), "TIME")
}

func (b *bed) inUse() string {
	state, err := b.Store.State()
	require.NoError(b.t, err)
	c, err := b.Store.Get(state.InUse)
	require.NoError(b.t, err)
	return c.Version
}

func TestList(t *testing.T) {
	b := newBed(t)
	assert.Equal(t, `COPY                  STATE   TESTED  TAKEN             CHOSEN BY
`+b.old.Name+`  in use  yes     TIME  codex-worker@default
codex 0.171.0 is in use, `+versions.Place("0.171.0")+`
0.172.0 is installed and not tried yet; to try it now: codex-proxy codex try 0.172.0
`, b.page())

	b.JSON = true
	b.out.Reset()
	require.NoError(t, b.List())
	var r struct {
		Policy, Tested string
		State          copies.State
		Copies         []struct{ Name, Version, Hash, Program string }
		Units          map[string][]string
		Installed      copies.Installed
	}
	require.NoError(t, json.Unmarshal(b.out.Bytes(), &r))
	assert.Equal(t, "follow", r.Policy)
	assert.Equal(t, b.old.Name, r.State.InUse)
	assert.Equal(t, b.old.Program, r.Copies[0].Program)
	assert.Equal(t, []string{"codex-worker@default.service"}, r.Units[b.old.Name])
}

func TestListWithoutACodex(t *testing.T) {
	var page strings.Builder
	require.NoError(t, write(&page, copies.Report{}))
	assert.Equal(t, "there is no copy of codex yet: the next start of a worker or remote that needs codex makes one\n", page.String())
}

// What is installed and not in use is named with the reason and the way to use it.
func TestWhyAnInstalledCodexIsNotInUse(t *testing.T) {
	b := newBed(t)
	b.AtOnce = true
	assert.Contains(t, b.page(), "0.172.0 is installed; the next start of a unit uses it\n")
	b.Policy = copies.Pinned
	assert.Contains(t, b.page(), "0.172.0 is installed, and 0.171.0 stays in use; to use it: codex-proxy codex use 0.172.0\n")
	b.Policy = "0.171.0"
	assert.Contains(t, b.page(), "0.172.0 is installed, and config.toml has codex = \"0.171.0\"; to use it, change that\n")
	b.Policy = copies.Follow
	c, err := b.Store.Take(t.Context(), b.Program)
	require.NoError(t, err)
	require.NoError(t, b.Store.Hold(t.Context(), c.Name, "it answers no tool call"))
	const held = "0.172.0 is installed and held back: it answers no tool call; to use it: codex-proxy codex use 0.172.0\n"
	assert.Contains(t, b.page(), held)
	_, err = b.Store.Prune(t.Context())
	require.NoError(t, err)
	assert.NotContains(t, b.page(), c.Name, "nothing runs it")
	assert.Contains(t, b.page(), held, "without its copy, too")
	require.NoError(t, b.Use(t.Context(), "0.172.0"))
	assert.NotContains(t, b.page(), "held")
}

func TestOrders(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.Hold(t.Context()))
	assert.Equal(t, "codex 0.171.0 is in use, and stays so until `codex-proxy codex follow`\n", b.out.String())
	assert.Contains(t, b.page(), "it stays in use by order of an operator")
	require.NoError(t, b.Use(t.Context(), "0.172.0"))
	assert.Equal(t, "0.172.0", b.inUse())
	require.NoError(t, b.Use(t.Context(), b.old.Name))
	assert.Equal(t, "0.171.0", b.inUse())
	require.NoError(t, b.Follow(t.Context()))
	assert.NotContains(t, b.page(), "by order")
	assert.EqualError(t, b.Use(t.Context(), "0.150.0"), "there is no copy of codex 0.150.0, and 0.172.0 is installed: "+
		"npm install -g @openai/codex@0.150.0")
	b.Policy = "0.172.0"
	assert.EqualError(t, b.Use(t.Context(), "0.171.0"), "config.toml allows no other codex than 0.172.0: "+
		`change codex = "0.172.0" there`)
	assert.NoError(t, b.Use(t.Context(), "0.172.0"))

	require.NoError(t, os.WriteFile(b.old.Program, []byte("codex 0.000.0"), 0o755)) //nolint:gosec // a program
	b.Policy = copies.Follow
	assert.ErrorContains(t, b.Use(t.Context(), "0.171.0"), "its bytes have changed")
}

func TestTry(t *testing.T) {
	b := newBed(t)
	var started string
	b.Start = func(_ context.Context, unit string) error {
		started = unit
		return b.Store.Use(t.Context(), unit[len("codex-canary@"):len(unit)-len(".service")])
	}
	require.NoError(t, b.Try(t.Context(), "0.172.0"))
	assert.Equal(t, "codex 0.172.0 has passed all tries, and is in use\n", b.out.String())
	assert.Contains(t, started, "codex-canary@0.172.0-")
	assert.Equal(t, "0.172.0", b.inUse())

	b.install("0.173.0")
	b.Start = func(_ context.Context, unit string) error {
		return errors.Join(errors.New("failed"), b.Store.Hold(t.Context(), unit[len("codex-canary@"):len(unit)-len(".service")], "it hangs"))
	}
	assert.EqualError(t, b.Try(t.Context(), "0.173.0"), "codex 0.173.0 is held back: it hangs")
	b.install("0.174.0")
	b.Start = func(context.Context, string) error { return errors.New("there is no such unit") }
	assert.EqualError(t, b.Try(t.Context(), "0.174.0"), "codex 0.174.0 was not tried: there is no such unit")
	b.AtOnce = true
	assert.ErrorContains(t, b.Try(t.Context(), "0.174.0"), "this installation has no codex-canary@.service")
}

// A trial against the order of an operator would say that a codex is in use which no start takes. The copy stays while
// it is tried.
func TestTryWithAnOrder(t *testing.T) {
	b := newBed(t)
	b.Start = func(_ context.Context, unit string) error {
		require.NoError(t, b.Store.Assign(t.Context(), "codex-worker@other.service", b.old.Name)) // which removes what is unused
		c, ok := b.Store.Find("0.172.0")
		require.True(t, ok)
		assert.Equal(t, "codex-canary@"+c.Name+".service", unit)
		return b.Store.Use(t.Context(), c.Name)
	}
	require.NoError(t, b.Hold(t.Context()))
	require.ErrorContains(t, b.Try(t.Context(), "0.172.0"), "stays in use by order of an operator")
	require.NoError(t, b.Follow(t.Context()))
	require.NoError(t, b.Try(t.Context(), "0.172.0"))
	assert.Equal(t, "0.172.0", b.inUse())
}
