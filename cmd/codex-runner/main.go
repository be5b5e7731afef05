// Command codex-runner runs commands in sessions that systemd supervises: each under limits of its own, with its
// output kept and its end explained.
package main

import (
	"context"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"codex-proxy/internal/cli"
)

// version is set by the linker in packages.
var version string

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.New("codex-runner", versionString(), commands()...).Run(ctx, args, stdout, stderr)
}

func commands() []cli.Group {
	return []cli.Group{
		{Title: "Commands for people", Commands: []*cobra.Command{
			runCommand(), setupCommand(), sessionsCommand(), showCommand(), logsCommand(), diffCommand(), cancelCommand(),
			releaseCommand(), shellCommand(), portForwardCommand(), artifactsCommand(), pruneCommand(), statusCommand(),
			doctorCommand(), mcpCommand(), consoleCommand(),
		}},
		{Title: "Commands for systemd units", Commands: []*cobra.Command{
			serveCommand(), consoleServeCommand(),
		}},
	}
}

// versionString is the linked version, or the version that the go command has recorded.
func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
