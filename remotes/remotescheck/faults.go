package remotescheck

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"

	"codex-proxy/internal/reach"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/units"
	"codex-proxy/workers/codexhome"
)

// unitPath is the PATH of a unit that sets none (systemd.exec(5), $PATH).
const unitPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

// Faults returns the missing conditions for a start on this machine, each with its remedy.
func Faults(s *remoteconfig.Settings) (faults []string) {
	add := func(key string, err error) {
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", key, err))
		}
	}
	as, err := Account(s)
	add("user", err)
	add("group", GroupFault(s))
	known := err == nil
	for i, dir := range s.Directories() {
		if !known { // its rights are unknown
			break
		}
		key := "writable"
		if i == 0 {
			key = "directory"
		}
		add(key, directoryFault(s, dir, as))
	}
	if s.Hands != nil {
		for key, fault := range handsFaults(s, as, known) {
			add(key, fault)
		}
	}
	_, err = codexhome.FindCodex(s.CodexPath, unitPath)
	add("codex_path", err)
	if p := s.Provider; p != nil {
		for key, file := range map[string]string{"provider.key_file": p.KeyFile, "provider.ca_file": p.CAFile} {
			if file != "" {
				add(key, fileFault(file))
			}
		}
	}
	return faults
}

// handsFaults are the missing conditions for hands.
func handsFaults(s *remoteconfig.Settings, as reach.Account, known bool) map[string]error {
	if s.Hands.URL != "" {
		faults := map[string]error{}
		faults["hands.token_file"] = fileFault(s.Hands.TokenFile)
		if s.Hands.CAFile != "" {
			faults["hands.ca_file"] = fileFault(s.Hands.CAFile)
		}
		return faults
	}
	if !known {
		return s.Hands.Faults(nil, "")
	}
	return s.Hands.Faults(&as, "the user is "+UserOf(s)+"; give it the permission to read, or name another user")
}

// GroupFault is the fault of the group of users that may attach.
func GroupFault(s *remoteconfig.Settings) error {
	if s.Group == "" {
		return nil
	}
	if _, err := user.LookupGroup(s.Group); err != nil {
		return fmt.Errorf("there is no group %q: make it, or leave group empty", s.Group)
	}
	return nil
}

// Account is the user that the remote runs as; for a user of its own, one that owns nothing yet.
func Account(s *remoteconfig.Settings) (reach.Account, error) {
	nobody := reach.Account{UID: units.NoUID, GID: units.NoUID}
	if s.User == "" {
		return nobody, nil
	}
	account, err := reach.Lookup(s.User)
	if err != nil {
		return nobody, fmt.Errorf("there is no user %q: make it, or leave user empty for one of its own", s.User)
	}
	if account.UID == 0 {
		return nobody, fmt.Errorf("%q has the rights of root: name a user without privileges", s.User)
	}
	return account, nil
}

func directoryFault(s *remoteconfig.Settings, dir string, as reach.Account) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %s: make it, for the user %s", dir, UserOf(s))
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory: name one", dir)
	}
	const reads, writes = 4, 2
	want := []fs.FileMode{reads}
	if s.Sandbox == remoteconfig.WorkspaceWrite {
		want = append(want, writes)
	}
	for _, of := range want {
		if err := reach.Check(as, dir, of); err != nil {
			return fmt.Errorf("%w: the user is %s; give it the permission, or name another user", err, UserOf(s))
		}
	}
	return nil
}

func fileFault(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s: make it", path)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	}
	return nil
}

// UserOf is the user that the remote runs as.
func UserOf(s *remoteconfig.Settings) string {
	if s.User != "" {
		return s.User
	}
	return units.RemoteUser(s.Name)
}
