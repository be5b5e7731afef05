package main

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/workers/accountscli"
	"codex-proxy/workers/control"
)

// completeBound is the longest that a completion waits for the daemon.
const completeBound = time.Second

const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeWorkers completes the first argument by the workers of the daemon, or of the worker files if it does not
// answer or the user is not root.
func completeWorkers(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeBound)
	defer cancel()
	socket := cmp.Or(c.Flag("socket").Value.String(), controlSocket(config.DefaultPath))
	report, _, err := control.NewClient(socket).Status(ctx)
	if err != nil {
		return completeWorkerFiles(c, args, typed)
	}
	var names []string
	for _, w := range report.Workers {
		names = append(names, w.Name)
	}
	return names, noFiles
}

// completeWorkerFiles completes the first argument by the names of the worker files.
func completeWorkerFiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	names, _ := accountscli.WorkerNames() // without a list there is nothing to complete
	return names, noFiles
}

// completeKeys completes the first argument by the keys of the file.
func completeKeys(e *apikeys.Editor) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || e.Locate(config.DefaultPath) != nil {
			return nil, noFiles
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeBound)
		defer cancel()
		keys, err := e.Read(ctx) // of a database, too
		if err != nil {
			return nil, noFiles
		}
		return keys.Names(), noFiles
	}
}
