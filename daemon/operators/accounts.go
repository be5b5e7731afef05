package operators

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"codex-proxy/daemon/config"
	"codex-proxy/daemon/reload"
	"codex-proxy/notify/handoff"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/control"
)

// accountTable is the operators' view of the accounts, and their orders. It is the
// control.AccountTable.
type accountTable struct {
	accountStore *accounts.Store
	plan         func() []accounts.Step
	lock         *reload.ChangeLock
	predecessor  *reload.Predecessor
	drained      func(worker string) bool // by an operator
	changed      func()                   // the pool looks at the store again
	logger       *slog.Logger

	mu sync.Mutex // one order at a time
}

// Accounts implements control.AccountTable.
func (t *accountTable) Accounts() control.Accounts {
	all := control.Accounts{Rotation: t.accountStore.Policy().Rotation, Accounts: []control.Account{}}
	steps := map[string]accounts.Step{}
	for _, step := range t.plan() {
		steps[step.Name] = step
	}
	rows := accounts.Known(t.accountStore, time.Now())
	inUse := ""
	for _, account := range rows {
		if account.InUse {
			inUse = account.Worker
		}
	}
	for _, account := range rows {
		step := steps[account.Worker]
		all.Accounts = append(all.Accounts,
			control.Account{Account: account, Next: step.Next, Why: t.why(step, inUse)})
	}
	return all
}

// why is the plan for an account. With all workers warm, nothing is planned for one.
func (t *accountTable) why(step accounts.Step, inUse string) string {
	var words []string
	if step.Next {
		words = append(words, "serves once "+inUse+" is low")
	}
	if t.accountStore.Policy().Warm > 0 && step.Why != "" {
		words = append(words, step.Why)
	}
	return strings.Join(words, "; ")
}

// Order implements control.AccountTable. The store goes to the successor and into the file.
func (t *accountTable) Order(o control.AccountOrder) error {
	return t.lock.Change(func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch o.Do {
		case control.SwitchAccount:
			return t.switchTo(o.Account)
		case control.PauseAccount, control.ResumeAccount:
			return t.pause(o.Account, o.Do == control.PauseAccount)
		}
		return fmt.Errorf("there is no order %q for an account; are the command and the daemon of the same version?",
			o.Do)
	})
}

func (t *accountTable) switchTo(name string) error {
	if rotation := t.accountStore.Policy().Rotation; rotation != accounts.Ordered {
		return fmt.Errorf("the rotation is %q, in which no account is the one in use: set rotation = \"ordered\" in "+
			"[accounts] of %s and systemctl reload codex-proxy, or keep turns from the others with "+
			"codex-proxy accounts pause", rotation, config.DefaultPath)
	}
	err := t.accountStore.Switch(name)
	if errors.Is(err, accounts.ErrNotAvailable) {
		return fmt.Errorf("%w: %s", err, t.remedy(name))
	}
	if err == nil {
		t.logger.Info("account switched by an operator", "account", name)
	}
	return err
}

// remedy is the advice to an operator about an account that is not available.
func (t *accountTable) remedy(name string) string {
	v, _ := t.accountStore.View(name, time.Now())
	switch {
	case v.Paused:
		return "it is paused; codex-proxy accounts resume " + name + " first"
	case v.State == accounts.LoginInvalid:
		return "its login is not accepted; codex-proxy accounts login " + name
	case v.State == accounts.Exhausted:
		return "its quota is used up, and it comes back by itself"
	}
	return "it is low, and another account is available"
}

// pause is put into force in predecessors as a drain of the worker: they take no new state,
// and end before the pause does.
func (t *accountTable) pause(name string, paused bool) error {
	v, _ := t.accountStore.View(name, time.Now())
	if err := t.accountStore.Pause(name, paused); err != nil || v.Paused == paused {
		return err
	}
	t.changed() // before the answer, and not soon after it
	if paused {
		t.logger.Info("account paused", "account", name)
	} else {
		t.logger.Info("account resumed", "account", name)
	}
	if paused || !t.drained(name) {
		t.predecessor.Pass(handoff.Drains, control.Drain{Workers: []string{name}, Undo: !paused})
	}
	return nil
}
