package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

const configUsage = `Usage: codex-proxy config check [--config FILE] [--set KEY=VALUE]...

Says whether the configuration is good, and so are the API keys. If not, it names
the file, the line and the key, and exits with 78.

  --config FILE       the file to read (/etc/codex-proxy/config.toml)
  --set KEY=VALUE     override one key
`

// configCommand is `codex-proxy config`.
func configCommand(_ context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] != "check" && !strings.HasPrefix(args[0], "-") {
		fmt.Fprint(stderr, configUsage)
		return exitUsage
	}
	var from configFlags
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	from.register(flags)
	if args[0] == "check" {
		args = args[1:]
	}
	if status, done := parseOnlyFlags(flags, args, configUsage, stdout, stderr); done {
		return status
	}
	c, err := from.load()
	if err == nil {
		err = c.CheckKeys(from.path)
	}
	if err != nil {
		return fail(stderr, "config check", asRoot(err), exitConfig)
	}
	fmt.Fprintf(stdout, "%s is good: workers %s\n", from.path, strings.Join(c.Workers, ", "))
	return exitOK
}
