// Package prepare readies a dependency for its start.
package prepare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/dependencies/holders"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/journal"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/refusal"
	"codex-proxy/units"
	"codex-proxy/units/restartdelay"
	"codex-proxy/workers/homelock"
)

// Dependency is `codex-proxy dependency-prepare`: it waits for the rest of the restart delay, and refuses the start if
// a process outside of the unit holds a resource that the dependency needs for itself. Also then the exit status is 0,
// because systemd restarts a unit whose ExecStartPre= fails.
func Dependency(ctx context.Context, name string, stderr io.Writer) error {
	if err := units.ValidDependencyName(name); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	refused := filepath.Join(paths.DependencyRefusals, name)
	if err := refusal.Clear(refused); err != nil {
		return err
	}
	logger := slog.New(journal.NewHandler(journal.Proxy, stderr, slog.LevelInfo))
	stopped := false
	err := restartdelay.AwaitOf(ctx, units.Dependency(name), logger, nil, func() error {
		stopped = true
		return refusal.Write(refused, "the unit is being stopped")
	})
	if err != nil || stopped {
		return err
	}
	reason := inTheWay(ctx, name, logger)
	if reason == "" {
		return nil
	}
	return refusal.Write(refused, reason)
}

// hostRoot shows all directories. Also a command with + runs in the mount namespace of a unit with StateDirectory= and
// DynamicUser=yes, where /var/lib/private has the directory of this unit only (systemd 252 and 257).
const hostRoot = "/proc/1/root"

// inTheWay returns the reason why the dependency cannot start, or nothing. Nothing is looked for if its file has a
// fault, which the unit's main process reports.
func inTheWay(ctx context.Context, name string, logger *slog.Logger) string {
	settings, err := dependencyconfig.Load(filepath.Join(paths.DependencySettings, name+".toml"))
	if err != nil {
		return ""
	}
	if reason := missing(settings); reason != "" {
		return reason
	}
	state := dependencyconfig.StateDir(name)
	if filepath.Dir(settings.Lock) != state {
		if err := homelock.MakeFile(hostRoot, settings.Lock); err != nil {
			logger.Warn("the lock is left to the server's user", "error", err)
		}
	}
	claim := holders.Claim{
		Root: hostRoot, Ports: settings.Ports, Lock: settings.Lock, Unit: units.Dependency(name),
		Data: append([]string{state}, settings.Directories...),
	}
	found, err := claim.Holders(ctx)
	if err != nil {
		logger.Warn("other processes are not looked for everywhere", "error", err)
	}
	return refusalOf(found)
}

// missing returns the complaint about a program that is not there, which no restart mends, or about the first of the
// directories that is none: the sandbox would leave it out.
func missing(s *dependencyconfig.Settings) string {
	if program := s.Command[0]; filepath.IsAbs(program) {
		if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("%s: command: there is no program %s: install it, or name its path, and run "+
				"`systemctl daemon-reload`", s.File, program)
		}
	}
	for _, dir := range s.Directories {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Sprintf("%s: directories: %s is not a directory: make it, and give it to the user %s", s.File,
				dir, cmp.Or(s.User, units.DependencyUser(s.Name)))
		}
	}
	return ""
}

// mostHolders bounds the processes that a refusal names.
const mostHolders = 3

func refusalOf(found []holders.Holder) string {
	if len(found) == 0 {
		return ""
	}
	var texts []string
	for _, h := range found[:min(len(found), mostHolders)] {
		texts = append(texts, h.String())
	}
	return strings.Join(texts, "; ") + ": end that first, then start this unit"
}
