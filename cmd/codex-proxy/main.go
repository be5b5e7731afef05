// Command codex-proxy is an OpenAI-compatible endpoint in front of codex
// app-server workers that systemd supervises.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"codex-proxy/notify/handoff"
)

// Exit statuses, as sysexits.h and systemd.exec(5) name them.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 64
	exitConfig  = 78
)

// version is set by the linker in packages.
var version string

const help = `Usage: codex-proxy COMMAND [OPTION]...

Commands for people:
  status            show whether the service is ready, and each worker
  drain             let a worker, or all, take no new turns
  undrain           let them take turns again
  accounts          log workers in, list, add and remove them
  doctor            look for what is wrong, and say what to do
  config check      say whether the configuration is good
  keys              add, list, limit and revoke API keys, or do without
  usage             show what API keys have used
  reload            replace the running daemon by the installed one
  version           print the version
  help              print this text

Commands for systemd units:
  serve             the HTTP daemon (codex-proxy.service)
  worker-prepare    write a worker's codex configuration (codex-worker@.service)
  fetch             fetch images for the daemon (codex-proxy-fetch.service)
  fetch-prepare     let it reach its name servers (codex-proxy-fetch.service)
  send-traces       send the daemon's traces on (codex-proxy-traces.service)
  traces-prepare    let it reach the collector (codex-proxy-traces.service)
  launch            start the next daemon for a reload (run by serve)
  notify-exec       run a program as a Type=notify service
  app-server        the demo worker, in place of codex app-server

codex-proxy COMMAND --help tells more about each.
`

type command struct {
	name string
	run  func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

func commands() []command {
	return []command{
		{"serve", serve},
		{"notify-exec", notifyExec},
		{"worker-prepare", workerPrepare},
		{"app-server", demoAppServer},
		{"fetch", fetchCommand},
		{"fetch-prepare", fetchPrepare},
		{"send-traces", sendTraces},
		{"traces-prepare", tracesPrepare},
		{"status", statusCommand},
		{"drain", drainCommand},
		{"undrain", undrainCommand},
		{"accounts", accountsCommand},
		{"doctor", doctorCommand},
		{"config", configCommand},
		{"keys", keysCommand},
		{"usage", usageCommand},
		{"reload", reloadCommand},
		{handoff.LaunchCommand, launch},
		{"version", printVersion},
	}
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, help)
		return exitUsage
	}
	name := args[0]
	if slices.Contains([]string{"help", "-h", "--help"}, name) {
		fmt.Fprint(stdout, help)
		return exitOK
	}
	if name == "--version" {
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "codex-proxy: unknown command %q; see codex-proxy help\n", name)
	return exitUsage
}

const versionUsage = `Usage: codex-proxy version

Prints the version.
`

func printVersion(_ context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	if status, done := parseOnlyFlags(flags, args, versionUsage, stdout, stderr); done {
		return status
	}
	fmt.Fprintln(stdout, "codex-proxy", versionString())
	return exitOK
}

// versionString is the linked version, or what the go command knows.
func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
