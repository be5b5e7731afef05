package operators

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/reload"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
)

// ordersFor has the accounts a, b, c and d. a is in use with rotation Ordered, c exhausted and d
// without a valid login.
func ordersFor(r accounts.Rotation) *accountTable {
	store := accounts.NewStore(accounts.Policy{Rotation: r, RotateAt: 0.05}, []string{"a", "b", "c", "d"}, func() {})
	now := time.Now()
	for name, used := range map[string]float64{"a": 0.1, "b": 0.2, "c": 1, "d": 0.1} {
		store.Identify(name, accounts.Login{Type: "chatgpt", At: now})
		store.Read(name, "", accounts.Quota{Source: accounts.Reading, At: now, Windows: []accounts.Window{
			{Name: "5h", Length: 5 * time.Hour, UsedRatio: used, ResetsAt: now.Add(time.Hour)}}})
	}
	store.Invalidate("d", now.Add(time.Second))
	return &accountTable{
		accountStore: store, lock: &reload.ChangeLock{}, predecessor: &reload.Predecessor{}, logger: slog.New(slog.DiscardHandler),
		drained: func(string) bool { return false }, changed: func() {},
		plan: func() []accounts.Step {
			var units []accounts.Unit
			for _, v := range store.Views(now) {
				units = append(units, accounts.Unit{Name: v.Name, Phase: accounts.Warm})
			}
			return accounts.Plan(store.Policy(), store.Views(now), units, now)
		},
	}
}

func TestOrdersOfAccounts(t *testing.T) {
	for name, tc := range map[string]struct {
		rotation accounts.Rotation
		orders   []control.AccountOrder
		err      string
		inUse    string
		next     string
		paused   []string
	}{
		"none":              {accounts.Ordered, nil, "", "a", "b", nil},
		"switch":            {accounts.Ordered, orders("b", "switch"), "", "b", "a", nil},
		"and back":          {accounts.Ordered, orders("b", "switch", "a", "switch"), "", "a", "b", nil},
		"pause":             {accounts.Ordered, orders("b", "pause"), "", "a", "", []string{"b"}},
		"pause twice":       {accounts.Ordered, orders("b", "pause", "b", "pause"), "", "a", "", []string{"b"}},
		"resume":            {accounts.Ordered, orders("b", "pause", "b", "resume"), "", "a", "b", nil},
		"pause that in use": {accounts.Ordered, orders("a", "pause"), "", "b", "", []string{"a"}},
		"switch to a paused one": {accounts.Ordered, orders("b", "pause", "b", "switch"),
			"it is paused; codex-proxy accounts resume b first", "a", "", []string{"b"}},
		"switch to an exhausted one": {accounts.Ordered, orders("c", "switch"), "its quota is used up", "a", "b", nil},
		"switch to a login that is not accepted": {accounts.Ordered, orders("d", "switch"),
			"codex-proxy accounts login d", "a", "b", nil},
		"switch to an unknown one": {accounts.Ordered, orders("e", "switch"), `no such account: "e"; there are a, b, c, d`, "a", "b", nil},
		"pause an unknown one":     {accounts.Ordered, orders("e", "pause"), `no such account: "e"`, "a", "b", nil},
		"an unknown order":         {accounts.Ordered, orders("a", "sell"), `no order "sell"`, "a", "b", nil},
		"switch without rotation": {accounts.Off, orders("b", "switch"),
			`set rotation = "ordered" in [accounts] of /etc/codex-proxy/config.toml and systemctl reload codex-proxy`, "", "", nil},
		"switch with an even rotation": {accounts.Even, orders("b", "switch"), `the rotation is "even"`, "", "", nil},
		"pause without rotation":       {accounts.Off, orders("b", "pause"), "", "", "", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			table := ordersFor(tc.rotation)
			var err error
			for _, order := range tc.orders {
				err = table.Order(order)
			}
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
			got := table.Accounts()
			assert.Equal(t, tc.rotation, got.Rotation)
			var inUse, next string
			var paused []string
			for _, account := range got.Accounts {
				if account.InUse {
					inUse = account.Worker
				}
				if account.Next {
					next = account.Worker
					assert.NotEmpty(t, account.Why)
				}
				if account.Paused {
					paused = append(paused, account.Worker)
				}
			}
			assert.Equal(t, []any{tc.inUse, tc.next, tc.paused}, []any{inUse, next, paused})
		})
	}
}

// orders are pairs of a name and an action.
func orders(words ...string) (all []control.AccountOrder) {
	for i := 0; i < len(words); i += 2 {
		all = append(all, control.AccountOrder{Account: words[i], Do: control.AccountAction(words[i+1])})
	}
	return all
}

// While another process takes over, it gets the orders.
func TestOrdersOfAccountsDuringAHandOff(t *testing.T) {
	table := ordersFor(accounts.Ordered)
	table.lock = moved()
	assert.ErrorIs(t, table.Order(control.AccountOrder{Account: "a", Do: control.PauseAccount}), control.ErrMoved)
	assert.False(t, table.Accounts().Accounts[0].Paused)
}
