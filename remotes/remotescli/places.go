package remotescli

import (
	"fmt"
	"path/filepath"

	"codex-proxy/internal/settingsfile"
	"codex-proxy/units"
)

// Places are the places of the remotes on this machine.
type Places struct {
	Settings string // the directory with the files of the remotes
	Template string // the file that Add copies
	Homes    string // the directory with the home of each remote
	// PrivateHomes has the home of each remote with a user of its own (systemd.exec(5), DynamicUser=).
	PrivateHomes string
	Units        string // the directory with the drop-ins of the operator
	Socket       func(name string) string
	Runner       string // the socket of codex-runner
}

func (p *Places) fileOf(name string) string { return filepath.Join(p.Settings, name+".toml") }

// known is the error of a remote that has no file.
func (p *Places) known(name string) error {
	if settingsfile.Exists(p.fileOf(name)) {
		return nil
	}
	return fmt.Errorf("there is no remote %q; codex-proxy remotes list shows what there is", name)
}

func unitsOf(name string) []string {
	return []string{units.Remote(name), units.RemoteSocket(name), units.RemoteNetworkSocket(name),
		units.RemoteNotify(name),
		units.RemoteNotifySocket(name)}
}

// dropInsOf are the directories that `systemctl edit` has made for the units.
func (p *Places) dropInsOf(name string) (dirs []string) {
	for _, unit := range unitsOf(name) {
		dirs = append(dirs, filepath.Join(p.Units, unit+".d"))
	}
	return dirs
}

// homesOf are the places of the home: with a dynamic user the first one is a link to the second one.
func (p *Places) homesOf(name string) []string {
	return []string{filepath.Join(p.Homes, name), filepath.Join(p.PrivateHomes, name)}
}

func (p *Places) hasHome(name string) bool {
	for _, path := range p.homesOf(name) {
		if settingsfile.Exists(path) {
			return true
		}
	}
	return false
}
