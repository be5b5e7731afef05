package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/config"
)

// controlFlag is the option by which a command finds the daemon: called after the
// options are parsed, it is the path.
func controlFlag(flags *pflag.FlagSet) func() string {
	var path string
	flags.Var(cli.Text(&path, "PATH"), "socket", "the daemon's control socket (as config.toml says)")
	return func() string { return cmp.Or(path, controlSocket(config.DefaultPath)) }
}

// controlSocket is where the daemon of these settings listens. If they are bad, a
// daemon that runs has read other ones, and a stop must find it.
func controlSocket(settings string) string {
	places, _ := config.LoadPlaces(settings)
	return places.Socket()
}
