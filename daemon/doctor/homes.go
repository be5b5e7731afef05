package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/workers/codexhome"
)

const (
	// largeHome is the size in bytes from which a home is named. A worker's home has its login and codex's databases,
	// some 10 MiB; a remote's has its threads, too.
	largeHome = 1 << 30
	// mostFiles bounds the files that are measured in one home.
	mostFiles = 100_000
)

// checkHomes measures the homes of codex: whatever grows in one fills the disk of all.
func checkHomes(ctx context.Context, s *survey) []Finding {
	var found []Finding
	for _, w := range s.workers {
		found = append(found, s.judgeHome(ctx, "worker "+w.name, home(w.name), w.unit())...)
	}
	for _, r := range s.remotes {
		found = append(found, s.judgeHome(ctx, r.subject(), filepath.Join(paths.RemoteHomes, r.name), r.unit())...)
	}
	return orOK(found, fmt.Sprintf("none has more than %d GiB", largeHome>>30))
}

func (s *survey) judgeHome(ctx context.Context, subject, dir, unit string) []Finding {
	use, err := measure(ctx, s.path(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist): // the first start makes it
		return nil
	case errors.Is(err, fs.ErrPermission):
		return []Finding{unprivileged(subject, "read "+dir)}
	case err != nil:
		return []Finding{unchecked(subject, err.Error(), "du -sh "+dir+"/.")}
	case use.bytes < largeHome:
		return nil
	}
	remedy := "du -ah " + dir + "/. | sort -h | tail shows what; remove what is not needed"
	if use.traces > use.bytes/2 {
		remedy = "systemctl restart " + unit + ", which removes codex's log of traces"
	}
	return []Finding{warn(subject, fmt.Sprintf("its home %s has %s, most of it below %s", dir, gibibytes(use.bytes),
		use.largest()), remedy)}
}

// homeUse is the disk space of the files of a home.
type homeUse struct {
	bytes, traces int64            // traces: of codex's log
	tops          map[string]int64 // by the first name below the home
}

// largest is the entry of the home that takes most.
func (u homeUse) largest() (name string) {
	for top, bytes := range u.tops {
		if name == "" || bytes > u.tops[name] || bytes == u.tops[name] && top < name {
			name = top
		}
	}
	return name
}

var errManyFiles = fmt.Errorf("it has more than %d files", mostFiles)

// measure adds up the files below dir, which may be a link to a directory. It follows no other link.
func measure(ctx context.Context, dir string) (homeUse, error) {
	use, files := homeUse{tops: map[string]int64{}}, 0
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return use, err
	}
	err = filepath.WalkDir(target, func(path string, d fs.DirEntry, err error) error {
		if files++; files > mostFiles {
			return errManyFiles
		}
		if errors.Is(err, fs.ErrNotExist) && path != target { // a directory that has gone meanwhile
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() { // an error: it has gone
			use.add(strings.TrimPrefix(path, target+"/"), info.Size())
		}
		return nil
	})
	return use, err
}

func (u *homeUse) add(path string, bytes int64) {
	top, _, nested := strings.Cut(path, "/")
	u.bytes, u.tops[top] = u.bytes+bytes, u.tops[top]+bytes
	if !nested && codexhome.IsTraceLog(path) {
		u.traces += bytes
	}
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
