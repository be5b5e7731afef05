// Command codex-proxy-broker sends the requests of a worker's codex to its model endpoint: the main process of
// codex-broker@.service. It is a program of its own, as every worker with network = "model" keeps a process of it: the
// rest of codex-proxy would take half of its memory.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"codex-proxy/broker/brokerunit"
	"codex-proxy/cmd/internal/socketservice"
	"codex-proxy/internal/cli"
	"codex-proxy/internal/paths"
)

func main() {
	limitProcessors()
	limitMemory()
	os.Exit(run(context.Background(), os.Args[1:], os.Stderr))
}

// run returns the exit status.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "codex-proxy-broker: this is the program of codex-broker@.service: "+
			"systemctl cat codex-broker@.service shows how it is run")
		return cli.Usage
	}
	settings := filepath.Join(cmp.Or(os.Getenv("CONFIGURATION_DIRECTORY"), paths.Settings), "workers")
	err := socketservice.Service{
		Command: "codex-proxy-broker", Socket: "broker", Leaving: "Finishing the requests in flight",
		Load: func(logger *slog.Logger) (socketservice.Server, string, error) {
			return brokerunit.Load(args[0], settings, os.Getenv("CREDENTIALS_DIRECTORY"), logger)
		},
	}.Run(ctx, stderr)
	return cli.Report(stderr, "codex-proxy-broker", err)
}

// limitProcessors keeps the program to a quarter of the processors, at least one: a turn is many small steps of several
// goroutines, and on processors of their own each step wakes one up. GOMAXPROCS in the environment takes precedence.
func limitProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + 3) / 4)
	}
}
