package accountscli

import (
	"context"

	"codex-proxy/workers/control"
)

// Switch makes an account the one in use.
func (a *Accounts) Switch(ctx context.Context, name string) error {
	_, err := a.order(ctx, name, control.SwitchAccount)
	if err == nil {
		a.print("The account %s is in use; conversations follow with their next turn.", name)
	}
	return err
}

// Pause keeps new turns from an account until Resume.
func (a *Accounts) Pause(ctx context.Context, name string) error {
	known, err := a.order(ctx, name, control.PauseAccount)
	if err != nil {
		return err
	}
	a.print("The account %s gets no new turns until codex-proxy accounts resume %[1]s.", name)
	for _, account := range known.Accounts {
		if !account.Paused && account.State.Serves() {
			return nil
		}
	}
	a.print("No account is left that serves: requests fail until one does.")
	return nil
}

// Resume ends the pause of an account.
func (a *Accounts) Resume(ctx context.Context, name string) error {
	_, err := a.order(ctx, name, control.ResumeAccount)
	if err == nil {
		a.print("The account %s may get turns again.", name)
	}
	return err
}

func (a *Accounts) order(ctx context.Context, name string, do control.AccountAction) (control.Accounts, error) {
	return control.NewClient(a.Socket).OrderAccount(ctx, control.AccountOrder{Account: name, Do: do})
}
