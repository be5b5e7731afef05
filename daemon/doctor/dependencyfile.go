package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"codex-proxy/dependencies/dependency"
	"codex-proxy/units"
)

// generated is where systemd's generators write, and systemPath where systemd looks for a program without a slash
// (systemd.generator(7), systemd.exec(5)).
const generated = "/run/systemd/generator"

var systemPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// judgeDependencyFile checks the file and the paths in it.
func (s *survey) judgeDependencyFile(d dependent) []Finding {
	switch {
	case d.missing:
		return []Finding{fail(d.subject(), "has no file "+d.path()+required(d),
			"codex-proxy dependencies add "+d.name+"; or take it out of requires")}
	case d.err != nil:
		return []Finding{fail(d.subject(), d.err.Error(),
			fmt.Sprintf("correct it until codex-proxy dependencies check "+
				"%s reports no fault; then systemctl daemon-reload && systemctl restart %s", d.name, d.unit()))}
	}
	var found []Finding
	for _, program := range programs(d.file) {
		if why := s.notRunnable(program); why != "" {
			found = append(found, fail(d.subject(), program+" "+why, "install it, or correct its path in "+d.path()+
				"; then systemctl daemon-reload && systemctl restart "+d.unit()))
		}
	}
	if d.file.User != "" {
		if _, err := s.Account(d.file.User); err != nil {
			found = append(found, fail(d.subject(), "there is no user "+d.file.User,
				"make the user, or correct user in "+
					d.path()))
		}
	}
	for _, dir := range d.file.Directories {
		if info, err := os.Stat(s.path(dir)); err != nil || !info.IsDir() {
			found = append(found, fail(d.subject(), dir+" is no directory: the unit cannot start", "mkdir -p "+dir+
				", or correct directories in "+d.path()))
		}
	}
	return found
}

// programs are those that the unit starts.
func programs(file *dependency.Settings) []string {
	if len(file.Prepare) == 0 {
		return file.Command[:1]
	}
	return []string{file.Prepare[0], file.Command[0]}
}

// notRunnable is why a program cannot be started, or empty.
func (s *survey) notRunnable(program string) string {
	places := []string{program}
	if !filepath.IsAbs(program) {
		places = nil
		for _, dir := range systemPath {
			places = append(places, filepath.Join(dir, program))
		}
	}
	for _, place := range places {
		info, err := os.Stat(s.path(place))
		switch {
		case err != nil:
			continue
		case info.IsDir() || info.Mode().Perm()&0o111 == 0:
			return "is not executable"
		}
		return ""
	}
	return "is not installed"
}

// judgeSettings checks that systemd has the settings of the file, and the server those of systemd, and that the state
// belongs to the server.
func (s *survey) judgeSettings(d dependent, unit units.Description) []Finding {
	var found []Finding
	switch {
	case d.file == nil:
	case unit.NeedReload || s.stale(d):
		found = append(found, warn(d.path(), "has changed, and systemd has not read it",
			"systemctl daemon-reload && systemctl restart "+d.unit()))
	case unit.Active() && s.changedSince(d.path(), unit.MainPID):
		found = append(found, warn(d.path(), "has changed since the server started", "systemctl restart "+d.unit()))
	}
	if f, bad := s.judgeState(d, unit); bad {
		found = append(found, f)
	}
	return found
}

// stale reports whether the drop-in of the unit is missing, or made of another text of the file.
func (s *survey) stale(d dependent) bool {
	text, err := os.ReadFile(s.path(generated, d.unit()+".d", "50-settings.conf"))
	return err != nil || !bytes.Equal(text, d.file.DropIn())
}

// judgeState checks the state directory of a server that runs. systemd gives the directory of one that does not run to
// its user at the next start.
func (s *survey) judgeState(d dependent, unit units.Description) (Finding, bool) {
	dir := dependency.StateDir(d.name)
	info, err := os.Stat(s.path(dir))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unprivileged(dir, "see it"), true
	case err != nil || !unit.Active() || unit.UID == units.NoUID:
		return Finding{}, false
	}
	uid := info.Sys().(*syscall.Stat_t).Uid
	if uid != unit.UID {
		return fail(dir, fmt.Sprintf("belongs to the user %d, not to %d of %s", uid, unit.UID, d.unit()),
			fmt.Sprintf("chown -R %[1]d:%[1]d %[2]s/ && systemctl restart %[3]s", unit.UID, dir, d.unit())), true
	}
	if extra := info.Mode().Perm() &^ 0o700; extra != 0 {
		return fail(dir, fmt.Sprintf("has mode %04o: others may use it", info.Mode().Perm()), "chmod 0700 "+
			strings.TrimSuffix(dir, "/")+"/"), true
	}
	return Finding{}, false
}
