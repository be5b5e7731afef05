package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"codex-proxy/internal/reach"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/usage"
	"codex-proxy/units"
)

// rule is the required ownership and mode of a file or directory.
type rule struct {
	path     string
	owner    string      // user
	worker   string      // its user is the owner, and the only reader
	group    string      // the group for the remedy
	most     fs.FileMode // no more than these bits
	readers  []string    // the users that must be able to read it, and to enter a directory
	optional bool        // the first use makes it
	made     string      // the command that makes it, if not systemd-tmpfiles
}

// rules follow the package, packaging/tmpfiles and the units.
func (s *survey) rules() []rule {
	rules := []rule{
		{path: program, owner: "root", group: "root", most: 0o755, readers: []string{proxyUser, workerUser}},
		{path: settingsDir, owner: "root", group: "root", most: 0o755, readers: []string{proxyUser, workerUser}},
		{path: configFile, owner: "root", group: proxyUser, most: 0o644, readers: []string{proxyUser}},
		{path: settingsDir + "/workers", owner: "root", group: "root", most: 0o755,
			readers: []string{proxyUser, workerUser}},
		{path: keyFile, owner: "root", group: "root", most: 0o600,
			made: "codex-proxy keys add NAME; an empty file would let in all that reach a loopback address"},
		{path: runDir, owner: "root", group: "root", most: 0o755, readers: []string{proxyUser}},
		{path: runDir + "/control", owner: proxyUser, group: proxyUser, most: 0o700, optional: true},
		{path: stateDir, owner: proxyUser, group: proxyUser, most: 0o700, readers: []string{proxyUser}, optional: true},
		{path: stateDir + "/" + usage.FileName, owner: proxyUser, group: proxyUser, most: 0o600,
			readers: []string{proxyUser}, optional: true},
		{path: stateDir + "/" + stored.FileName, owner: proxyUser, group: proxyUser, most: 0o600,
			readers: []string{proxyUser}, optional: true},
		{path: stateDir + "/" + stored.EventsDirectory, owner: proxyUser, group: proxyUser, most: 0o700,
			readers: []string{proxyUser}, optional: true},
		{path: homes, owner: "root", group: "root", most: 0o755, readers: []string{workerUser}},
	}
	for _, w := range s.workers {
		rules = append(rules,
			rule{path: workerFile(w.name), owner: "root", group: "root", most: 0o644, readers: []string{workerUser}},
			rule{path: home(w.name), worker: w.name, most: 0o700, optional: true},
			rule{path: home(w.name) + "/auth.json", worker: w.name, most: 0o600, optional: true},
			rule{path: home(w.name) + "/config.toml", worker: w.name, most: 0o600, optional: true},
		)
	}
	return rules
}

// checkPermissions checks that the users that need a file can use it, and no others.
func checkPermissions(_ context.Context, s *survey) []Finding {
	var found []Finding
	rules := s.rules()
	for _, r := range rules {
		if f, bad := s.obeyed(r); bad {
			found = append(found, f)
		}
	}
	found = append(found, s.namedKeys()...)
	return orOK(found, fmt.Sprintf("%d files and directories are for those who need them", len(rules)))
}

// namedKeys checks the file of API keys that config.toml names: the daemon reads it
// itself. The default file is a credential.
func (s *survey) namedKeys() []Finding {
	reader, err := s.Account(proxyUser)
	if s.config == nil || s.config.KeyFile == "" || s.config.KeyFile == keyFile || err != nil {
		return nil
	}
	file := filepath.Clean(s.config.KeyFile)
	const elsewhere = "move the file to " + settingsDir + ", set api_keys to it, and systemctl reload codex-proxy"
	for _, hidden := range []string{"/home/", "/root/", "/run/user/"} {
		if strings.HasPrefix(file, hidden) {
			return []Finding{fail(file, "cannot be seen by the service (ProtectHome= in its unit)", elsewhere)}
		}
	}
	for path := file; path != "/"; path = filepath.Dir(path) {
		info, err := os.Stat(s.path(path))
		if errors.Is(err, fs.ErrPermission) {
			return []Finding{unprivileged(path, "see it")}
		}
		if err != nil {
			return []Finding{fail(path, "not checked: "+err.Error(), "stat "+path)}
		}
		st, mode := info.Sys().(*syscall.Stat_t), info.Mode().Perm()
		switch {
		case path == file && !has(reader, 0o4, st, info):
			return []Finding{fail(path, fmt.Sprintf("has mode %04o: %s cannot read it", mode, proxyUser),
				fmt.Sprintf("chown root:%s %s && chmod 0640 %s", proxyUser, path, path))}
		case path != file && !has(reader, 0o1, st, info):
			return []Finding{fail(path, fmt.Sprintf("has mode %04o: %s cannot enter it, and reads no API keys there",
				mode, proxyUser), elsewhere)}
		}
	}
	return nil
}

func (s *survey) obeyed(r rule) (Finding, bool) {
	info, err := os.Stat(s.path(r.path))
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.optional:
		return Finding{}, false
	case errors.Is(err, fs.ErrNotExist):
		return fail(r.path, "is missing", cmp.Or(r.made,
			"systemd-tmpfiles --create codex-proxy.conf, or reinstall the package")), true
	case errors.Is(err, fs.ErrPermission):
		return unprivileged(r.path, "see it"), true
	case err != nil:
		return fail(r.path, "not checked: "+err.Error(), "stat "+r.path), true
	}
	if r.worker != "" {
		r.owner = s.workerID(r.worker)
		r.group = r.owner
	}
	owner, err := s.owner(r)
	if err != nil {
		return unchecked(r.path, "there is no user "+r.owner, "users"), true
	}
	if wrong := s.wrong(r, info, owner); wrong != "" {
		return fail(r.path, wrong, r.remedy(info)), true
	}
	return Finding{}, false
}

// owner is the account of the rule's owner.
func (s *survey) owner(r rule) (reach.Account, error) {
	if r.worker == "" {
		return s.Account(r.owner)
	}
	uid, err := strconv.ParseUint(r.owner, 10, 32)
	return reach.Account{UID: uint32(uid)}, err
}

// workerID is the number of a worker's user: systemd's while the worker runs, and else
// the owner of the home, which systemd gives to the worker at its start.
func (s *survey) workerID(worker string) string {
	if d, known := s.units[units.Worker(worker)]; known && d.UID != units.NoUID {
		return strconv.FormatUint(uint64(d.UID), 10)
	}
	info, err := os.Stat(s.path(home(worker)))
	if err != nil {
		return "of " + home(worker)
	}
	return strconv.FormatUint(uint64(info.Sys().(*syscall.Stat_t).Uid), 10)
}

func (s *survey) wrong(r rule, info fs.FileInfo, owner reach.Account) string {
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != owner.UID {
		return fmt.Sprintf("belongs to the user %d, not to %s", st.Uid, r.owner)
	}
	if extra := info.Mode().Perm() &^ r.most; extra != 0 {
		return fmt.Sprintf("has mode %04o: others than %s may use it (at most %04o)", info.Mode().Perm(),
			r.owner, r.most)
	}
	for _, name := range r.readers {
		if reader, err := s.Account(name); err == nil && !may(reader, st, info) {
			return fmt.Sprintf("has mode %04o: %s cannot read it", info.Mode().Perm(), name)
		}
	}
	return ""
}

// may reports whether the account can read a file, or list and enter a directory, by
// its mode. It ignores access control lists.
func may(a reach.Account, st *syscall.Stat_t, info fs.FileInfo) bool {
	need := fs.FileMode(0o4)
	if info.IsDir() {
		need = 0o5
	}
	return has(a, need, st, info)
}

// has reports whether the digit of the mode for the account has the bits of need.
func has(a reach.Account, need fs.FileMode, st *syscall.Stat_t, info fs.FileInfo) bool {
	switch {
	case a.UID == 0:
		return true
	case st.Uid == a.UID:
		need <<= 6
	case st.Gid == a.GID || slices.Contains(a.Groups, st.Gid):
		need <<= 3
	}
	return info.Mode().Perm()&need == need
}

func (r rule) remedy(info fs.FileInfo) string {
	mode := r.most
	if !info.IsDir() && r.group == proxyUser && r.owner == "root" {
		mode = 0o640
	}
	return fmt.Sprintf("chown %s:%s %s && chmod %04o %s", r.owner, r.group, r.path, mode, r.path)
}
