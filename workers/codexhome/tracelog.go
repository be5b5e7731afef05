package codexhome

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"codex-proxy/internal/sqlite"
)

// codex writes a trace of every turn into logs_2.sqlite, whatever RUST_LOG, feedback and analytics say: 190 KB, of
// which 33 KB stay (0.171; 0.140 writes 640 KB). It drops old entries by thread and after ten days. Threads of a worker
// live for one conversation, so the file would grow with each turn. A setting does not exist. A directory in place of
// the file works since 0.169 and prevents the start of older versions. A trigger that ignores new entries works with
// all versions.
const (
	traceLogs    = "logs_*.sqlite"
	traceTrigger = "codex_proxy_keeps_no_log"
	// ignoreTraces is for the table of 0.140 to 0.171, the migrations 1 and 2 of the file.
	// Source: https://www.sqlite.org/lang_createtrigger.html, "The RAISE() function".
	ignoreTraces = "CREATE TRIGGER IF NOT EXISTS " + traceTrigger +
		" BEFORE INSERT ON logs BEGIN SELECT RAISE(IGNORE); END"
)

// noTraces turns the trace log of codex off, and removes its content. Nothing else may use the home. A
// failure does not prevent the start: the operator gets a note.
func (p *preparation) noTraces(ctx context.Context) {
	dir := p.databases()
	files := TraceLogs(dir)
	if len(files) > 0 && !slices.ContainsFunc(files, tracing) {
		return
	}
	err := RemoveTraces(dir)
	if err == nil {
		err = p.codex.makeDatabases(ctx)
	}
	for _, file := range TraceLogs(dir) {
		err = errors.Join(err, ignoreInserts(ctx, file))
	}
	if err != nil {
		p.Note(fmt.Sprintf("cannot turn off codex's log of traces in %s, which grows with each turn: %s", dir, err))
	}
}

// databases is the directory of codex's databases: CODEX_HOME, or sqlite_home of the worker's [codex] table.
func (p *preparation) databases() string {
	if dir, ok := p.worker.effective()["sqlite_home"].(string); ok && dir != "" {
		return dir
	}
	return p.Dir
}

// TraceLogs are codex's files of traces in a directory. Only regular files count: a directory of that name
// turns the log off, too.
func TraceLogs(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, traceLogs)) // the pattern is well-formed
	return slices.DeleteFunc(files, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || !info.Mode().IsRegular()
	})
}

// IsTraceLog reports whether a file of that name in a home is one of them, or a journal of SQLite next to it.
func IsTraceLog(name string) bool {
	ours, _ := filepath.Match(traceLogs+"*", name) // the pattern is well-formed
	return ours
}

// RemoveTraces removes them, with the journals of SQLite.
func RemoveTraces(dir string) error {
	for _, file := range TraceLogs(dir) {
		if err := removeFiles(file+"-wal", file+"-shm", file); err != nil {
			return err
		}
	}
	return nil
}

// tracing reports whether entries are added to a file. An unreadable one counts as such, and is made anew.
func tracing(file string) bool {
	db, err := sqlite.OpenForeign(file)
	if err != nil {
		return true
	}
	defer db.Close()
	var name string
	err = db.QueryRow("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name = ?", traceTrigger).Scan(&name)
	return err != nil
}

func ignoreInserts(ctx context.Context, file string) error {
	db, err := sqlite.OpenForeign(file)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, ignoreTraces)
	return errors.Join(err, db.Close())
}

// databasesLimit bounds a run that only leads to a note. The slowest measured run of codex took 3.3 s (no network, an
// account with policies).
const databasesLimit = 15 * time.Second

// makeDatabases has codex make its databases: the app-server makes them at its start, and ends with its standard input.
func (c codex) makeDatabases(ctx context.Context) error {
	c.limit = databasesLimit
	_, talk, err := c.run(ctx, "app-server", "--strict-config")
	if err != nil {
		return fmt.Errorf("codex does not make its databases (%w): %s", err, lastLine(talk))
	}
	return nil
}

// MostTraces is the size in bytes above which the log of a remote is removed at its next start. A remote keeps its
// threads, so codex itself bounds its log of each, and a person may look for a fault of codex there.
const MostTraces = 64 << 20

// boundTraces bounds the log of a remote. It reads nothing of the file, which tools of the remote can write.
func (h *Home) boundTraces() {
	var size int64
	for _, file := range TraceLogs(h.Dir) {
		if info, err := os.Lstat(file); err == nil {
			size += info.Size()
		}
	}
	if size <= MostTraces {
		return
	}
	if err := RemoveTraces(h.Dir); err != nil {
		h.Note("cannot remove codex's log of traces, which has " + strconv.FormatInt(size>>20, 10) + " MiB: " +
			err.Error())
	}
}
