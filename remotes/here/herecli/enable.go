package herecli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"codex-proxy/codex/copies"
	"codex-proxy/codex/versions"
	"codex-proxy/internal/listing"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/here"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/units"
)

// embedded are the forms of codex that never attach to a server.
const embedded = "codex with -c, --search, -p, --strict-config, --oss or --no-daemon, and codex exec, review and mcp"

// Enable gives the user a unit, which starts once: so its faults show now, and the next start knows codex. It can be
// called again.
func (h *Here) Enable(ctx context.Context, name string) error {
	r, err := account(name)
	if err != nil {
		return err
	}
	if _, err := here.Load(paths.HereSettings); err != nil {
		return err
	}
	before, err := h.Records.Get(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.Made = before.Made; before.UID == r.UID { // else the name is another person's now
		r.Loan = before.Loan
	}
	if err := h.Records.Put(r); err != nil {
		return err
	}
	err = h.open(ctx, name)
	if err == nil {
		err = judgeVersion(ctx, name)
	}
	if err != nil {
		return h.undo(ctx, before, name, err)
	}
	ended, err := here.EndDaemons(ctx, h.Proc, r.UID)
	if err != nil {
		return err
	}
	if ended > 0 {
		h.print("codex's own daemon and its updater have ended: %d processes. Their files in %s/.codex/packages may go.",
			ended, r.Home)
	}
	made, err := r.In().Link(socket(name))
	if len(made) > 0 {
		r.Made = append(r.Made, made...)
		err = errors.Join(err, h.Records.Put(r))
	}
	if err != nil {
		return err
	}
	h.print("A bare codex of %s now runs in %s: %s leads to %s.", name, units.Here(name), here.ControlPath(r.Home),
		socket(name))
	h.print("As before, in its own process: %s.", embedded)
	return h.configure()
}

// undo disables a user after a fault of an Enable, and returns the fault. A user that had the unit before keeps it,
// with its turns.
func (h *Here) undo(ctx context.Context, before here.Record, name string, fault error) error {
	if before.User != "" {
		return fault
	}
	return errors.Join(fault, h.Disable(context.WithoutCancel(ctx), name))
}

// open starts the units.
func (h *Here) open(ctx context.Context, name string) error {
	return bounded(ctx, func(ctx context.Context) error {
		if err := h.Systemd.Enable(ctx, units.HereSocket(name)); err != nil {
			return err
		}
		if err := h.Systemd.Start(ctx, units.HereSocket(name)); err != nil {
			return err
		}
		err := h.Systemd.Start(ctx, units.Here(name))
		if err == nil {
			return nil
		}
		unit, fault := h.Systemd.Describe(context.WithoutCancel(ctx), units.Here(name))
		if fault == nil && unit.StatusText != "" {
			err = fmt.Errorf("%w: %s", err, listing.Printable(unit.StatusText))
		}
		return err
	})
}

// judgeVersion refuses a codex that attaches to no server by itself.
func judgeVersion(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	st, err := remoteapi.AskStatus(ctx, socket(name))
	if err != nil {
		return errors.New(listing.Printable(err.Error())) // a process of the user may have answered
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(st.Codex, "codex "), ",")
	if versions.Older(version, versions.OldestForHere) {
		return fmt.Errorf("codex %s attaches to no server by itself: install 0.%d or newer, or name one by "+
			"codex_path in %s", listing.Printable(version), versions.OldestForHere, paths.HereSettings)
	}
	return nil
}

// configure has codex start no daemon of its own, for all users, if codex's configuration for the machine is not there
// yet, and no unit of this machine has a codex that does not know the setting: such a codex would not start.
func (h *Here) configure() error {
	state, err := here.ConfigOf(h.Config)
	if err != nil {
		h.print("%v", err)
		state = here.ConfigLacks
	}
	old := oldCopies(copies.Open())
	switch {
	case state == here.ConfigOurs || state == here.ConfigHas:
	case len(old) > 0:
		h.print("%s is for all, and units of this machine have codex %s, which does not start with the setting "+
			"daemon_auto_start of 0.%d. So it is not written, and a codex that waits more than 2 s for the unit starts "+
			"its own daemon.", h.Config, strings.Join(old, ", "), versions.OldestForHere)
	case state == here.ConfigAbsent:
		return here.WriteConfig(h.Config)
	default:
		h.print("Add to %s, under [features]:  daemon_auto_start = false\n"+
			"Without this line a codex that waits more than 2 s for the unit starts its own daemon.", h.Config)
	}
	return nil
}

// oldCopies are the versions of the codexes that units of this machine run, or may run again, and that do not know
// the setting.
func oldCopies(store *copies.Store) (list []string) {
	kept, _ := store.List()
	for _, c := range kept {
		if versions.Older(c.Version, versions.OldestForHere) && !slices.Contains(list, c.Version) {
			list = append(list, c.Version)
		}
	}
	return list
}
