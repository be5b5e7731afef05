package dependenciescheck

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/checkup"
	"codex-proxy/units"
	"codex-proxy/units/survey"
)

// judgeDependencyFile checks the file and the paths in it.
func (r *room) judgeDependencyFile(d dependent) []checkup.Finding {
	switch {
	case d.missing:
		return checkup.Failure(d.subject(), "has no file "+d.path()+required(d),
			"codex-proxy dependencies add "+d.name+"; or take it out of requires").Alone()
	case d.err != nil:
		return checkup.Failure(d.subject(), d.err.Error(),
			fmt.Sprintf("correct it until codex-proxy dependencies check "+
				"%s reports no fault; then systemctl daemon-reload && systemctl restart %s", d.name, d.unit())).Alone()
	}
	var found []checkup.Finding
	for _, fault := range r.Faults(d.file) {
		found = append(found, checkup.Failure(d.subject(), fault,
			"then look again: codex-proxy dependencies check "+d.name))
	}
	return found
}

// judgeSettings checks that systemd has the settings of the file, the server has the settings of systemd, and the
// state belongs to the server.
func (r *room) judgeSettings(d dependent, unit units.Description) []checkup.Finding {
	var found []checkup.Finding
	switch {
	case d.file == nil:
	case unit.NeedReload || r.stale(d):
		found = append(found, checkup.Warning(d.path(), "has changed, and systemd has not read it",
			"systemctl daemon-reload && systemctl restart "+d.unit()))
	case unit.Active() && r.ChangedSince(d.path(), unit.MainPID):
		found = append(found, checkup.Warning(d.path(), "has changed since the server started",
			"systemctl restart "+d.unit()))
	}
	if f, bad := r.judgeState(d, unit); bad {
		found = append(found, f)
	}
	return found
}

// stale reports whether the drop-in of the unit is missing, or made of another text of the file.
func (r *room) stale(d dependent) bool {
	text, err := os.ReadFile(r.Path(survey.Generated, d.unit()+".d", "50-settings.conf"))
	return err != nil || !bytes.Equal(text, d.file.DropIn())
}

// judgeState checks the state directory of a server that runs. systemd gives the directory of one that does not run to
// its user at the next start.
func (r *room) judgeState(d dependent, unit units.Description) (checkup.Finding, bool) {
	dir := dependencyconfig.StateDir(d.name)
	info, err := os.Stat(r.Path(dir))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return survey.Unprivileged(dir, "see it"), true
	case err != nil || !unit.Active() || unit.UID == units.NoUID:
		return checkup.Finding{}, false
	}
	uid := info.Sys().(*syscall.Stat_t).Uid
	if uid != unit.UID {
		return checkup.Failure(dir, fmt.Sprintf("belongs to the user %d, not to %d of %s", uid, unit.UID, d.unit()),
			fmt.Sprintf("chown -R %[1]d:%[1]d %[2]s/ && systemctl restart %[3]s", unit.UID, dir, d.unit())), true
	}
	if extra := info.Mode().Perm() &^ 0o700; extra != 0 {
		return checkup.Failure(dir, fmt.Sprintf("has mode %04o: others may use it", info.Mode().Perm()), "chmod 0700 "+
			strings.TrimSuffix(dir, "/")+"/"), true
	}
	return checkup.Finding{}, false
}
