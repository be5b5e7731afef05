package herecli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/remotes/here"
	"codex-proxy/units"
)

// allAccounts are all accounts of codex-proxy, in an order to lend.
const allAccounts = "all"

// mostAccounts bounds the accounts that are named for one user.
const mostAccounts = 64

// loanDropIn gives the unit of a user the group of the socket on which logins are asked for.
const loanDropIn = `# Made by codex-proxy here accounts, which removes it, too.
[Service]
SupplementaryGroups=codex-remote
`

// Accounts has accounts of codex-proxy serve the codex of a user, or the user's own login again, or prints which
// ones do. The unit takes a change when no turn runs.
func (h *Here) Accounts(ctx context.Context, name string) error {
	r, err := h.Records.Get(name)
	if errors.Is(err, fs.ErrNotExist) {
		return notEnabled(name)
	}
	if err != nil {
		return err
	}
	switch {
	case h.Lend == "" && !h.Own:
		h.print("%s: %s", name, loanWords(r))
		return nil
	case h.Lend != "" && h.Own:
		return errors.New("--lend and --own exclude each other: give one of them")
	}
	loan := &here.Loan{On: !h.Own}
	if loan.On {
		if loan.Accounts, err = accountNames(h.Lend); err != nil {
			return err
		}
	}
	if err := h.prepareLoan(ctx, name, loan.On); err != nil {
		return err
	}
	r.Loan = loan
	if err := h.Records.Put(r); err != nil {
		return err
	}
	for _, of := range loan.Accounts {
		if _, err := os.Stat(filepath.Join(paths.WorkerSettings, of+".toml")); errors.Is(err, fs.ErrNotExist) {
			h.print("There is no account %q (codex-proxy accounts list): it serves once there is one.", of)
		}
	}
	h.print("%s: %s, from the next start of codex on: within some 10 s, as soon as no turn runs.", name, loanWords(r))
	return nil
}

func loanWords(r here.Record) string {
	switch {
	case !r.Lends():
		return "the login of the user serves"
	case len(r.Loan.Accounts) == 0:
		return "all accounts of codex-proxy serve"
	}
	return "accounts of codex-proxy serve: " + strings.Join(r.Loan.Accounts, ", ")
}

// accountNames are the accounts of an order to lend; none: all.
func accountNames(order string) ([]string, error) {
	if order == allAccounts {
		return nil, nil
	}
	names := strings.Split(order, ",")
	for _, name := range names {
		if err := units.ValidName(name); err != nil {
			return nil, fmt.Errorf("--lend: %w: write %q, or names of codex-proxy accounts list with commas",
				err, allAccounts)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > mostAccounts {
		return nil, fmt.Errorf("--lend: more than %d accounts: write %q", mostAccounts, allAccounts)
	}
	return names, nil
}

// prepareLoan makes the drop-in of the unit, or removes it.
func (h *Here) prepareLoan(ctx context.Context, name string, on bool) error {
	file := paths.HereLoan(name)
	err := removeLoan(name)
	if err == nil && on {
		err = os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // all users read it
	}
	if err == nil && on {
		err = os.WriteFile(file, []byte(loanDropIn), 0o644) //nolint:gosec // all users read it
	}
	if err != nil {
		return fmt.Errorf("cannot write the drop-in of the unit: %w", err)
	}
	return bounded(ctx, h.Systemd.DaemonReload)
}

// removeLoan removes the drop-in, if there is one.
func removeLoan(name string) error {
	file := paths.HereLoan(name)
	if err := removed(file); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(file)) // if it is empty
	return nil
}
