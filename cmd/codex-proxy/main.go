// Command codex-proxy is an OpenAI-compatible endpoint in front of codex
// app-server workers that systemd supervises.
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
	return cli.New("codex-proxy", versionString(), commands()...).Run(ctx, args, stdout, stderr)
}

func commands() []cli.Group {
	return []cli.Group{
		{Title: "Commands for people", Commands: []*cobra.Command{
			statusCommand(), drainCommand(), undrainCommand(), accountsCommand(), doctorCommand(), configCommand(),
			codexCommand(), keysCommand(), databaseCommand(), usageCommand(), requestsCommand(), dependenciesCommand(),
			remotesCommand(),
			attachCommand(), hereCommand(), consoleCommand(), reloadCommand(),
		}},
		{Title: "Commands for systemd units", Commands: []*cobra.Command{
			serveCommand(), workerWaitCommand(), workerPrepareCommand(), workerHandsCommand(),
			accountLoginCommand(), generateUnitsCommand(),
			dependencyBoundCommand(), dependencyPrepareCommand(), remoteWaitCommand(), remoteExecCommand(),
			remoteNotifyCommand(), hereWaitCommand(), hereExecCommand(), canaryCommand(), canaryEndCommand(),
			copiesCommand(), fetchCommand(), fetchPrepareCommand(), sendTracesCommand(), tracesPrepareCommand(),
			launchCommand(), consoleServeCommand(), consoleServerCommand(), consoleOrdersCommand(), notifyExecCommand(),
			databasePrepareCommand(), databaseRelayCommand(),
			lockExecCommand(), appServerCommand(),
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
