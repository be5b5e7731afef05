package accountscli

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/listing"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
)

// someAccounts are one of each kind at now.
func someAccounts(now time.Time) accountList {
	window := func(name string, used float64, resets time.Duration) accounts.Limit {
		return accounts.Limit{Window: name, UsedRatio: used, ResetsAt: now.Add(resets)}
	}
	running := func(r accountRow) accountRow {
		r.ActiveState, r.SubState = "active", "running"
		return r
	}
	return accountList{Rotation: accounts.Ordered, Accounts: []accountRow{
		running(accountRow{Name: "a", Login: "chatgpt", Plan: "pro", State: accounts.Low, InUse: true,
			Limits:  []accounts.Limit{window("5h", 0.96, 72*time.Minute), window("7d", 0.42, 80*time.Hour), {Window: "30d"}},
			Credits: &accounts.Credits{Has: true, Balance: "12.5"}, KnownFrom: accounts.Update, KnownAt: now.Add(-40 * time.Second)}),
		running(accountRow{Name: "b", Login: "chatgpt", Plan: "plus", State: accounts.Available, Next: true, SharedWith: []string{"c"},
			Limits: []accounts.Limit{window("5h", 0, 5*time.Hour)}, KnownFrom: accounts.Reading, KnownAt: now.Add(-4 * time.Minute),
			Why: "the next in order once a is low"}),
		{Name: "c", ActiveState: "inactive", SubState: "dead", Login: "chatgpt", State: accounts.Exhausted, Until: now.Add(15 * time.Hour),
			Paused: true, Limits: []accounts.Limit{window("5h", 1, 15*time.Hour)}, KnownFrom: accounts.Reading, KnownAt: now.Add(-3 * time.Hour),
			RefusedAt: now.Add(-10 * time.Second)},
		running(accountRow{Name: "d", Login: "chatgpt", State: accounts.LoginInvalid, InvalidAt: now.Add(-time.Hour)}),
		running(accountRow{Name: "key", Login: "api_key", State: accounts.Available}),
		{Name: "new", ActiveState: "inactive", SubState: "dead", Login: "missing", State: accounts.Unknown},
		{Name: "odd", Login: "unknown", Error: "codex is not installed", State: accounts.Unknown},
		running(accountRow{Name: "local", Login: "not_needed"}),
	}}
}

func TestAccountsPage(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600))
	var out bytes.Buffer
	require.NoError(t, page{listing.Paper{Width: 100}}.write(&out, someAccounts(now), now))
	assert.Equal(t, `rotation: ordered

a  low; in use
  5h      [#############################-]  96 % used, resets in 1h12m, at 13:12
  7d      [#############-----------------]  42 % used, resets in 3 days, at Wed 4 Mar 20:00
  30d     [------------------------------]   0 % used
  credits 12.5
  known   by a turn, 40s ago
  login   ChatGPT, pro
  unit    active (running)

b  available; next
  5h      [------------------------------]   0 % used, resets in 5h0m, at 17:00
  known   by a reading, 4m ago
  same    c
  login   ChatGPT, plus
  unit    active (running)
  plan    the next in order once a is low

c  exhausted until Mon 2 Mar 03:00, in 15h0m; paused
  5h      [##############################] 100 % used, resets in 15h0m, at Mon 2 Mar 03:00
  known   by a reading, 3h0m ago; a turn was refused 10s ago
  login   ChatGPT
  unit    inactive (dead)

d  login invalid
  known   the login was refused 1h0m ago
  login   ChatGPT
  unit    active (running)

key  available
  login   API key
  unit    active (running)

new  needs login
  unit    inactive (dead)

odd  unknown
  login   unknown
  unit    unknown
  error   codex is not installed

local  needs no login
  unit    active (running)
`, out.String())
}

// A narrow terminal has shorter bars, and then the reset in a line of its own.
func TestAccountsPageIsAsWideAsTheTerminal(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, width := range []int{200, 100, 80, 72, 71, 60, 48} {
		var out bytes.Buffer
		require.NoError(t, page{listing.Paper{Width: width}}.write(&out, someAccounts(now), now))
		for line := range strings.Lines(out.String()) {
			if !strings.Contains(line, "known") && !strings.Contains(line, "exhausted") { // words, which may wrap
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, line)
			}
		}
		assert.Contains(t, out.String(), "96 % used")
		assert.Contains(t, out.String(), "resets in 3 days, at Wed 4 Mar 20:00")
	}
}

func TestAccountsPageInColour(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	require.NoError(t, page{listing.Paper{Width: 80, Colour: true}}.write(&out, someAccounts(now), now))
	for _, want := range []string{"\x1b[33mlow\x1b[0m", "\x1b[31mexhausted\x1b[0m until", "\x1b[32mavailable\x1b[0m",
		"[\x1b[31m#################\x1b[0m-]  96 % used"} {
		assert.Contains(t, out.String(), want)
	}
}

// The fields that 0.1.0 had keep their names.
// A worker is not trusted with the terminal of root.
func TestAccountsPageHasNoControlCharacters(t *testing.T) {
	list := accountList{Accounts: []accountRow{{Name: "a", Login: "chatgpt", Plan: "pro\x1b[2J\n",
		Credits: &accounts.Credits{Has: true, Balance: "1\x07\u202e"}}}}
	var out bytes.Buffer
	require.NoError(t, page{listing.Paper{Width: 100}}.write(&out, list, time.Now()))
	assert.Equal(t, "a  unknown\n  credits 1\n  login   ChatGPT, pro[2J\n  unit    unknown\n", out.String())
}

func TestAccountsAsJSON(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	line, err := json.Marshal(someAccounts(now))
	require.NoError(t, err)
	var got struct {
		Rotation string
		Accounts []map[string]any
	}
	require.NoError(t, json.Unmarshal(line, &got))
	assert.Equal(t, "ordered", got.Rotation)
	for _, field := range []string{"name", "unit", "active_state", "sub_state", "login", "plan", "limits", "state", "left",
		"known_from", "known_at", "credits", "paused", "in_use", "next"} {
		assert.Contains(t, got.Accounts[0], field)
	}
	assert.Equal(t, []any{"c"}, got.Accounts[1]["shared_with"])
	assert.Equal(t, "2026-03-02T03:00:00Z", got.Accounts[2]["until"])
}

// Without a daemon the file has what is known; a daemon's word counts more.
func TestAccountsAreKnownWithoutADaemon(t *testing.T) {
	now := time.Now()
	file := filepath.Join(t.TempDir(), accounts.FileName)
	store := accounts.NewStore(accounts.Policy{Rotation: accounts.Off, RotateAt: 0.05}, []string{"default"}, func() {})
	store.Identify("default", accounts.Login{Type: "chatgpt", Plan: "pro", At: now})
	store.Read("default", "id", accounts.Quota{Source: accounts.Reading, At: now, Windows: []accounts.Window{
		{Name: "5h", Length: 5 * time.Hour, UsedRatio: 0.97, ResetsAt: now.Add(time.Hour)}}})
	require.NoError(t, store.Pause("default", true))
	require.NoError(t, accounts.WriteFile(file, store.Save()))

	var stderr bytes.Buffer
	a := &Accounts{Policy: off, Socket: filepath.Join(t.TempDir(), "none"), Stderr: &stderr}
	known, err := a.saved(file, []string{"default"})
	require.NoError(t, err)
	require.Len(t, known.Accounts, 1)
	got := known.Accounts[0]
	assert.Equal(t, accounts.Off, known.Rotation)
	assert.Equal(t, accounts.Low, got.State)
	assert.True(t, got.Paused)
	assert.Equal(t, "5h", got.Limits[0].Window)
	_, err = a.saved(file+"2", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Empty(t, stderr.String())
}

// table is the AccountTable of a daemon that carries every order out.
type table struct{ orders []control.AccountOrder }

func (f *table) Accounts() control.Accounts {
	account := control.Account{Account: accounts.Account{Worker: "a", State: accounts.Available}}
	for _, order := range f.orders {
		account.Paused = order.Do == control.PauseAccount
	}
	return control.Accounts{Rotation: accounts.Ordered, Accounts: []control.Account{account}}
}

func (f *table) Order(o control.AccountOrder) error {
	f.orders = append(f.orders, o)
	return nil
}

func TestOrders(t *testing.T) {
	daemon := &table{}
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := control.Listen(socket)
	require.NoError(t, err)
	server := control.New(control.Settings{Changes: control.NewChanges(), Accounts: daemon,
		Logger: slog.New(slog.DiscardHandler)})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { assert.NoError(t, server.Shutdown(context.Background())) })
	var stderr bytes.Buffer
	a := &Accounts{Socket: socket, Stderr: &stderr}
	for _, tc := range []struct {
		do    func(context.Context, string) error
		order control.AccountAction
		want  string
	}{
		{a.Switch, control.SwitchAccount, "The account a is in use; conversations follow with their next turn.\n"},
		{a.Pause, control.PauseAccount, "The account a gets no new turns until codex-proxy accounts resume a.\n" +
			"No account is left that serves: requests fail until one does.\n"},
		{a.Resume, control.ResumeAccount, "The account a may get turns again.\n"},
	} {
		stderr.Reset()
		require.NoError(t, tc.do(t.Context(), "a"))
		assert.Equal(t, control.AccountOrder{Account: "a", Do: tc.order}, daemon.orders[len(daemon.orders)-1])
		assert.Equal(t, tc.want, stderr.String())
	}
	a.Socket += "2"
	assert.ErrorIs(t, a.Pause(t.Context(), "a"), control.ErrNotRunning)
}
