// Package proxycheck checks the databases of the service.
package proxycheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/usage"
	"codex-proxy/units/survey"
)

// leastFree is the free space below which a write of a database may fail.
const leastFree = 1 << 20

// databases has the databases of the daemon. Without them it still serves, loses the data, and tries again.
var databases = []struct {
	name, without string
	check         func(context.Context, string) error
}{
	{usage.FileName, "usage is kept in memory, and daily limits of API keys begin anew at each start", usage.Check},
	{stored.FileName, "no response is kept", stored.Check},
}

// New returns the databases' part of an installation. free returns the bytes that are free for other users than root.
func New(m survey.Machine, free func(dir string) (uint64, error)) survey.Room {
	own := survey.Rule{Owner: paths.User, Group: paths.User, Readers: []string{paths.User}, Optional: true}
	return survey.Room{
		Rules: []survey.Rule{
			own.Of(paths.StateDir, 0o700), own.Of(paths.StateDir+"/"+usage.FileName, 0o600),
			own.Of(paths.StateDir+"/"+stored.FileName, 0o600),
			own.Of(paths.StateDir+"/"+stored.EventsDirectory, 0o700),
		},
		Checks: []checkup.Check{{Name: "databases", Stage: checkup.Files,
			Run: func(ctx context.Context) []checkup.Finding { return check(ctx, m, free) }}},
	}
}

// check checks that the daemon can use its databases.
func check(ctx context.Context, m survey.Machine, free func(string) (uint64, error)) []checkup.Finding {
	var found []checkup.Finding
	for _, db := range databases {
		path := paths.StateDir + "/" + db.name
		err := db.check(ctx, m.Path(path))
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist): // the first use makes it
		case errors.Is(err, fs.ErrPermission):
			found = append(found, survey.Unprivileged(path, "read it"))
		default:
			const remedy = "mkdir -p %[1]s/bad && mv %[2]s* %[1]s/bad && " + // with its -wal and -shm
				"systemctl try-reload-or-restart codex-proxy, which begins a new one"
			found = append(found, checkup.Failure(path, fmt.Sprintf("%v: %s", err, db.without),
				fmt.Sprintf(remedy, paths.StateDir, path)))
		}
	}
	left, err := free(m.Path(paths.StateDir))
	if err == nil && left < leastFree { // an error: the directory does not exist yet
		found = append(found, checkup.Failure(paths.StateDir,
			"its file system is full: usage waits in memory, and no response is kept",
			"make room, which df "+paths.StateDir+" shows; the service then goes on by itself"))
	}
	return checkup.OrPassed(found, "usage and responses can be kept")
}
