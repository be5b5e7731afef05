package remoteexec

import (
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/internal/paths"
	"codex-proxy/internal/unitfile"
	"codex-proxy/remotes/hands"
	"codex-proxy/remotes/namespaces"
	"codex-proxy/remotes/remoteconfig"
)

// hidden are the directories of others, and those in which codex-proxy or systemd keeps data of others. /run as a whole
// has the sockets of the user's other processes and of daemons, whichever they are and whenever they start.
var hidden = []string{"/home", "/root", "/srv", "/run", "/var/mail", "/var/spool", paths.RemoteHomes,
	"/var/lib/private",
	paths.StateDir, paths.WorkerHomes, paths.DependencyStates, paths.Settings, "/etc/systemd"}

// userNames is where systemd answers which name a dynamic user has (nss-systemd(8)), and nothing else.
const userNames = "/run/systemd/userdb"

func (u *Unit) view(s *remoteconfig.Settings) (namespaces.View, error) {
	view := namespaces.View{
		Hidden: append(slices.Clone(hidden), u.others(s)...), Shown: append([]string{u.Home, u.Runtime},
			s.Directories()...),
		Covered: []string{filepath.Join(u.Home, managerDir)}, Dir: s.Directory,
		Offline: s.Network == remoteconfig.NoNetwork, Hands: s.Hands != nil,
	}
	if s.Hands != nil {
		view.Dir = hands.Directory
		if dir := s.Hands.RepoDirectory(); dir != "" {
			view.Hidden = append(view.Hidden, dir)
		}
	}
	if _, err := os.Stat(userNames); err == nil {
		view.Shown = append(view.Shown, userNames)
	}
	if !view.Offline { // systemd-resolved would ask the network
		view.Shown = append(view.Shown, nameservers("/etc/resolv.conf", "/run")...)
	}
	codex, err := filepath.EvalSymlinks(filepath.Join(u.Runtime, "codex"))
	if err != nil {
		return view, err
	}
	lies := func(in string) bool { return unitfile.Within(codex, in) }
	if slices.ContainsFunc(view.Hidden, lies) && !slices.ContainsFunc(view.Shown, lies) {
		return view, s.Fault("codex_path",
			"%s is in a directory that is hidden from the remote: install codex elsewhere, "+
				"such as below /usr/local or /opt", codex)
	}
	text, err := requirements(requirementsFile, s)
	view.Pinned = map[string]string{requirementsFile: text}
	return view, err
}

// others are the directories of the other remotes, but for those in a directory that this remote shares. A remote with
// a fault in its file has none.
func (u *Unit) others(s *remoteconfig.Settings) (dirs []string) {
	settings := filepath.Dir(u.File)
	names, _ := remoteconfig.Names(settings)
	for _, name := range names {
		other, err := remoteconfig.Load(filepath.Join(settings, name+".toml"))
		if err != nil || name == s.Name {
			continue
		}
		for _, dir := range other.Directories() {
			if !slices.ContainsFunc(s.Directories(), func(own string) bool { return unitfile.Within(dir, own) }) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// nameservers is the directory below run of the file that a link names the servers of DNS by: a service replaces the
// file. A file in run itself is alone.
func nameservers(link, run string) []string {
	target, err := filepath.EvalSymlinks(link)
	dir := filepath.Dir(target)
	switch {
	case err != nil || !unitfile.Within(target, run):
		return nil
	case dir == run:
		return []string{target}
	}
	return []string{dir}
}
