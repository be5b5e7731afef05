package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"codex-proxy/proxy/stored"
	"codex-proxy/proxy/usage"
)

// leastFree is the free space below which a write of a database may fail.
const leastFree = 1 << 20

// checkDatabases checks that the daemon can use its databases. Without them it still
// serves, loses the data, and tries again.
func checkDatabases(ctx context.Context, s *survey) []Finding {
	var found []Finding
	for _, db := range []struct {
		name, without string
		check         func(context.Context, string) error
	}{
		{usage.FileName, "usage is kept in memory, and daily limits of API keys begin anew at each start", usage.Check},
		{stored.FileName, "no response is kept", stored.Check},
	} {
		path := stateDir + "/" + db.name
		err := db.check(ctx, s.path(path))
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist): // the first use makes it
		case errors.Is(err, fs.ErrPermission):
			found = append(found, unprivileged(path, "read it"))
		default:
			const remedy = "mkdir -p %[1]s/bad && mv %[2]s* %[1]s/bad && " + // with its -wal and -shm
				"systemctl try-reload-or-restart codex-proxy, which begins a new one"
			found = append(found, fail(path, fmt.Sprintf("%v: %s", err, db.without),
				fmt.Sprintf(remedy, stateDir, path)))
		}
	}
	free, err := s.Free(s.path(stateDir))
	if err == nil && free < leastFree { // an error: the directory does not exist yet
		found = append(found, fail(stateDir, "its file system is full: usage waits in memory, and no response is kept",
			"make room, which df "+stateDir+" shows; the service then goes on by itself"))
	}
	return orOK(found, "usage and responses can be kept")
}
