package accountstate

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/reload"
	"codex-proxy/workers/accounts"
)

// keeper is a Keeper with its file in dir, of a process that serves.
func keeper(t *testing.T, dir string, log *bytes.Buffer) *Keeper {
	t.Helper()
	return policyKeeper(t, accounts.Policy{RotateAt: 0.05}, dir, log)
}

func policyKeeper(t *testing.T, policy accounts.Policy, dir string, log *bytes.Buffer) *Keeper {
	t.Helper()
	t.Setenv("STATE_DIRECTORY", dir)
	started := make(chan struct{})
	close(started)
	return NewKeeper(policy, []string{"a", "b"}, started, reload.NewSuccessor(),
		slog.New(slog.NewTextHandler(log, nil)))
}

func quotaOf(used float64, at time.Time) accounts.Quota {
	return accounts.Quota{Windows: []accounts.Window{accounts.NewWindow(300, used, time.Time{})}, At: at}
}

var message = regexp.MustCompile(`msg="([^"]*)"`)

func messages(log *bytes.Buffer) (all []string) {
	for line := range strings.Lines(log.String()) {
		all = append(all, message.FindStringSubmatch(line)[1])
	}
	log.Reset()
	return all
}

// One event a change, whatever is read meanwhile; a restart repeats none.
func TestAccountEvents(t *testing.T) {
	dir := t.TempDir()
	log := &bytes.Buffer{}
	k := keeper(t, dir, log)
	now := time.Now()
	step := func(used float64, want ...string) {
		t.Helper()
		now = now.Add(time.Second)
		k.store.Read("a", "", quotaOf(used, now))
		k.report()
		assert.Equal(t, want, messages(log))
	}
	step(0.5)
	step(0.96, "account is low")
	step(0.97)
	step(1, "account is exhausted")
	k.store.Read("b", "", quotaOf(1, now))
	k.report()
	assert.Equal(t, []string{"account is exhausted", "no account has quota"}, messages(log))
	step(1)
	k.write()

	k = keeper(t, dir, log)
	step(1)
	step(0.5, "account is available")
	now = now.Add(time.Second)
	k.store.Invalidate("a", now)
	k.report()
	assert.Equal(t, []string{"the login of an account is invalid", "no account has quota"}, messages(log))
	step(0.2, "account is available")
}

// The account in use is reported when it changes, not at the start.
func TestAccountRotatedEvent(t *testing.T) {
	log := &bytes.Buffer{}
	k := policyKeeper(t, accounts.Policy{Rotation: accounts.Ordered, RotateAt: 0.05}, t.TempDir(), log)
	now := time.Now()
	for _, name := range []string{"a", "b"} {
		k.store.Read(name, "", quotaOf(0.1, now))
	}
	k.report()
	assert.Empty(t, messages(log))
	k.store.Read("a", "", quotaOf(0.96, now.Add(time.Second)))
	k.report()
	k.report()
	assert.Contains(t, log.String(), "worker=b before=a")
	assert.Equal(t, []string{"account is low", "another account is in use"}, messages(log))
}

func TestAccountFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, accounts.FileName)
		log := &bytes.Buffer{}
		k := keeper(t, dir, log)
		changed := 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx, func() { changed++ }) }()
		left := func() float64 {
			saved, err := accounts.ReadFile(path)
			require.NoError(t, err)
			return saved.Accounts["a"].Quota.Left()
		}
		k.store.Read("a", "", quotaOf(0.2, time.Now()))
		synctest.Wait()
		assert.InDelta(t, 0.8, left(), 1e-9, "a change of the state is written at once")
		assert.Equal(t, 1, changed)
		<-time.After(time.Second)
		k.store.Read("a", "", quotaOf(0.3, time.Now()))
		synctest.Wait()
		assert.InDelta(t, 0.8, left(), 1e-9)
		<-time.After(interval)
		synctest.Wait()
		assert.InDelta(t, 0.7, left(), 1e-9, "anything else within the interval")
		k.store.Read("a", "", quotaOf(0.4, time.Now()))
		cancel()
		require.NoError(t, <-ended)
		assert.InDelta(t, 0.6, left(), 1e-9, "and at the end")
		again, _ := keeper(t, dir, log).store.View("a", time.Now())
		assert.InDelta(t, 0.6, again.Left, 1e-9)
		assert.Empty(t, messages(log))

		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		k = keeper(t, dir, log)
		assert.Equal(t, []string{"what was known of the accounts is lost; it is read anew"}, messages(log))
		k.store.Read("a", "", quotaOf(0.5, time.Now()))
		k.write()
		assert.InDelta(t, 0.5, left(), 1e-9)

		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Mkdir(path, 0o700))
		for range 2 {
			k.store.Read("a", "", quotaOf(0.6, time.Now()))
			k.write()
		}
		want := []string{"cannot write what is known of the accounts; a restart forgets it"}
		assert.Equal(t, want, messages(log), "once")
	})
}

// While another process of the service serves, that one writes the file and the events.
func TestAccountsOfAProcessThatDoesNotServe(t *testing.T) {
	dir := t.TempDir()
	log := &bytes.Buffer{}
	k := keeper(t, dir, log)
	k.started = make(chan struct{})
	k.store.Read("a", "", quotaOf(1, time.Now()))
	k.report()
	k.write()
	assert.NoFileExists(t, filepath.Join(dir, accounts.FileName))
	assert.Empty(t, messages(log))
}

// Refusals of an account that is exhausted already change no state: they may come by the
// second, and the file is flushed to the disk.
func TestRefusalsAreWrittenWithinTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k := keeper(t, dir, &bytes.Buffer{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx, func() {}) }()
		refuse := func() time.Time {
			now := time.Now()
			k.store.Refuse("a", time.Time{}, now)
			synctest.Wait()
			return now
		}
		refused := func() time.Time {
			saved, err := accounts.ReadFile(filepath.Join(dir, accounts.FileName))
			require.NoError(t, err)
			return saved.Accounts["a"].Quota.RefusedAt
		}
		first := refuse()
		assert.True(t, first.Equal(refused()), "a change of the state is written at once")
		<-time.After(time.Second)
		second := refuse()
		assert.True(t, first.Equal(refused()))
		<-time.After(interval)
		synctest.Wait()
		assert.True(t, second.Equal(refused()))
		<-time.After(time.Second)
		require.NoError(t, k.store.Pause("a", true))
		synctest.Wait()
		saved, err := accounts.ReadFile(filepath.Join(dir, accounts.FileName))
		require.NoError(t, err)
		assert.True(t, saved.Accounts["a"].Paused, "so is a pause")
		cancel()
		require.NoError(t, <-ended)
	})
}
