package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/units"
)

// permissions checks that the users that need a file can use it, and no others.
func (w *whole) permissions(context.Context) []checkup.Finding {
	var found []checkup.Finding
	rules := each(w, func(r Room) []Rule { return r.Rules })
	for _, r := range rules {
		if f, bad := w.obeyed(r); bad {
			found = append(found, f)
		}
	}
	for _, r := range w.rooms {
		if r.Access != nil {
			found = append(found, r.Access()...)
		}
	}
	return checkup.OrPassed(found, fmt.Sprintf("%d files and directories are for those who need them", len(rules)))
}

func (w *whole) obeyed(r Rule) (checkup.Finding, bool) {
	info, err := os.Stat(w.Path(r.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.Optional:
		return checkup.Finding{}, false
	case errors.Is(err, fs.ErrNotExist):
		return checkup.Failure(r.Path, "is missing", cmp.Or(r.Made,
			"systemd-tmpfiles --create codex-proxy.conf, or reinstall the package")), true
	case errors.Is(err, fs.ErrPermission):
		return Unprivileged(r.Path, "see it"), true
	case err != nil:
		return checkup.Failure(r.Path, "not checked: "+err.Error(), "stat "+r.Path), true
	}
	if r.Home != "" {
		r.Owner = w.ownerOf(r.Home, r.Unit)
		r.Group = r.Owner
	}
	owner, err := w.owner(r)
	if err != nil {
		return checkup.Unchecked(r.Path, "there is no user "+r.Owner, "users"), true
	}
	if wrong := w.wrong(r, info, owner); wrong != "" {
		return checkup.Failure(r.Path, wrong, r.remedy(info)), true
	}
	return checkup.Finding{}, false
}

// owner is the account of the rule's owner.
func (w *whole) owner(r Rule) (reach.Account, error) {
	if r.Home == "" {
		return w.Account(r.Owner)
	}
	uid, err := strconv.ParseUint(r.Owner, 10, 32)
	return reach.Account{UID: uint32(uid)}, err
}

// ownerOf is the number of the user of a unit: systemd's while the unit runs, and else the owner of the home, which
// systemd gives to the unit at its start.
func (w *whole) ownerOf(home, unit string) string {
	if d, known := w.Units[unit]; known && d.UID != units.NoUID {
		return strconv.FormatUint(uint64(d.UID), 10)
	}
	info, err := os.Stat(w.Path(home))
	if err != nil {
		return "of " + home
	}
	return strconv.FormatUint(uint64(info.Sys().(*syscall.Stat_t).Uid), 10)
}

func (w *whole) wrong(r Rule, info fs.FileInfo, owner reach.Account) string {
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != owner.UID {
		return fmt.Sprintf("belongs to the user %d, not to %s", st.Uid, r.Owner)
	}
	if extra := info.Mode().Perm() &^ r.Most; extra != 0 {
		return fmt.Sprintf("has mode %04o: others than %s may use it (at most %04o)", info.Mode().Perm(),
			r.Owner, r.Most)
	}
	for _, name := range r.Readers {
		if reader, err := w.Account(name); err == nil && !may(reader, info) {
			return fmt.Sprintf("has mode %04o: %s cannot read it", info.Mode().Perm(), name)
		}
	}
	return ""
}

// may reports whether the account can read a file, or list and enter a directory, by
// its mode. It ignores access control lists.
func may(a reach.Account, info fs.FileInfo) bool {
	if info.IsDir() {
		return reach.Permits(info, a, 5)
	}
	return reach.Permits(info, a, 4)
}

func (r Rule) remedy(info fs.FileInfo) string {
	mode := r.Most
	if !info.IsDir() && r.Group == paths.User && r.Owner == "root" {
		mode = 0o640
	}
	return fmt.Sprintf("chown %s:%s %s && chmod %04o %s", r.Owner, r.Group, r.Path, mode, r.Path)
}

// Of is the rule for another path.
func (r Rule) Of(path string, most fs.FileMode) Rule {
	r.Path, r.Most = path, most
	return r
}
