package canaryunit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
)

const (
	// verdictFile is in the runtime directory of the unit, from the main process to End.
	verdictFile = "verdict.json"
	// maxVerdict and maxReason bound the file and the reason in it, in bytes.
	maxVerdict = 8 << 10
	maxReason  = 1 << 10
)

// verdict is the result of a trial.
type verdict struct {
	Passed  bool   `json:"passed"`
	Reason  string `json:"reason"`            // why it has not passed
	Version string `json:"version,omitempty"` // that codex has said of itself
}

// Main is the main process of codex-canary@NAME.service, `codex-proxy codex-canary NAME`: it tries the copy of that
// name, and leaves the verdict for End.
func Main(ctx context.Context, name, version string, stderr io.Writer) error {
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	dir := os.Getenv("RUNTIME_DIRECTORY")
	if dir == "" {
		return cli.Exit(cli.Usage,
			errors.New("RUNTIME_DIRECTORY is not set: `systemctl start codex-canary@"+name+"` runs this"))
	}
	store := copies.Open()
	c, err := store.Get(name)
	if err != nil {
		return err
	}
	trial := Trial{Program: c.Program, Dir: filepath.Join(dir, "trial"), Version: version, Logger: logger}
	if state, err := store.State(); err == nil && state.InUse != name {
		if before, err := store.Get(state.InUse); err == nil {
			trial.Before = before.Program
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // codex gets it, too
	defer stop()
	err = trial.Run(ctx)
	return leave(ctx, dir, trial.Found(), err)
}

// leave leaves the verdict by the result of the trial; none if the trial was stopped, of which that is no fault.
func leave(ctx context.Context, dir, version string, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	v := verdict{Passed: err == nil, Version: version}
	if err != nil {
		v.Reason = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxReason)], "")
	}
	text, fault := json.Marshal(v)
	return errors.Join(err, fault, os.WriteFile(filepath.Join(dir, verdictFile), text, 0o600))
}

// End is ExecStopPost= of the unit, as root, `codex-proxy codex-canary-end NAME`: a copy that has passed is put into
// use, and one that has not is held back, and goes. A trial that was stopped changes nothing.
func End(ctx context.Context, store *copies.Store, name string, stderr io.Writer) error {
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	unit := copies.CanaryUnit(name)
	v, err := readVerdict(os.Getenv("RUNTIME_DIRECTORY"))
	if renamed, fault := copies.Rename(ctx, store, name, v.Version); fault == nil { // no file of a bare program names it
		name = renamed
	}
	result := os.Getenv("SERVICE_RESULT") // systemd.exec(5)
	switch {
	case err == nil && v.Passed && result == "success":
		return putIntoUse(ctx, store, name, logger)
	case err == nil && !v.Passed:
	case result == "success": // an operator has stopped it
		logger.Info("the trial of codex was stopped", "copy", name)
		return nil
	default: // a fault of the canary itself, or systemd has ended it: timeout, oom-kill, signal
		v.Reason = "its trial ended without a verdict: " + result
	}
	logger.Error("codex is held back: it has failed its trial", "copy", name, "reason", v.Reason)
	if err := store.Hold(ctx, name, v.Reason); err != nil {
		return err
	}
	err = store.Assign(ctx, unit, "")
	_, fault := store.Prune(ctx)
	return errors.Join(err, fault)
}

func putIntoUse(ctx context.Context, store *copies.Store, name string, logger *slog.Logger) error {
	state, err := store.State()
	if err == nil {
		err = store.Use(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("the codex has passed its trial: %w", err)
	}
	logger.Info("codex has passed its trial, and is in use from now on", "copy", name, "before", state.InUse)
	return nil
}

// readVerdict reads the file of another user, as root.
func readVerdict(dir string) (v verdict, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return v, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(verdictFile)
	if err != nil {
		return v, err
	}
	if !info.Mode().IsRegular() { // a pipe would block
		return v, fs.ErrInvalid
	}
	file, err := root.Open(verdictFile)
	if err != nil {
		return v, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxVerdict))
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, err
	}
	v.Reason = strings.Join(strings.Fields(v.Reason), " ")
	return v, nil
}
