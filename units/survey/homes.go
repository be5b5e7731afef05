package survey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"codex-proxy/internal/checkup"
)

const (
	// largeHome is the size in bytes from which a home is named. A worker's home has its login and codex's databases,
	// some 10 MiB; a remote's has its threads, too.
	largeHome = 1 << 30
	// mostFiles bounds the files that are measured in one home.
	mostFiles = 100_000
)

// homes measures the homes of codex: whatever grows in one fills the disk of all.
func (w *whole) homes(ctx context.Context) []checkup.Finding {
	var found []checkup.Finding
	for _, h := range each(w, func(r Room) []Home { return r.Homes }) {
		found = append(found, w.judgeHome(ctx, h)...)
	}
	return checkup.OrPassed(found, fmt.Sprintf("none has more than %d GiB", largeHome>>30))
}

func (w *whole) judgeHome(ctx context.Context, h Home) []checkup.Finding {
	use, err := measure(ctx, w.Path(h.Path), h.TraceLog)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the first start makes it
		return nil
	case errors.Is(err, fs.ErrPermission):
		return []checkup.Finding{Unprivileged(h.Subject, "read "+h.Path)}
	case err != nil:
		return checkup.Unchecked(h.Subject, err.Error(), "du -sh "+h.Path+"/.").Alone()
	case use.bytes < largeHome:
		return nil
	}
	remedy := "du -ah " + h.Path + "/. | sort -h | tail shows what; remove what is not needed"
	if use.traces > use.bytes/2 {
		remedy = "systemctl restart " + h.Unit + ", which removes codex's log of traces"
	}
	return checkup.Warning(h.Subject, fmt.Sprintf("its home %s has %s, most of it below %s", h.Path,
		gibibytes(use.bytes), use.largest()), remedy).Alone()
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
func measure(ctx context.Context, dir string, traceLog func(string) bool) (homeUse, error) {
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
			use.add(strings.TrimPrefix(path, target+"/"), info.Size(), traceLog)
		}
		return nil
	})
	return use, err
}

func (u *homeUse) add(path string, bytes int64, traceLog func(string) bool) {
	top, _, nested := strings.Cut(path, "/")
	u.bytes, u.tops[top] = u.bytes+bytes, u.tops[top]+bytes
	if !nested && traceLog(path) {
		u.traces += bytes
	}
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }
