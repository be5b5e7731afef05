package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"codex-proxy/daemon/config"
	"codex-proxy/internal/cli"
)

// controlFlag adds the option --socket. Called after the options are parsed, the
// function returns the path of the control socket.
func controlFlag(flags *pflag.FlagSet) func() string {
	var path string
	flags.Var(cli.Text(&path, "PATH"), "socket", "the daemon's control socket (by default that of config.toml)")
	return func() string { return cmp.Or(path, controlSocket(config.DefaultPath)) }
}

// controlSocket is where the daemon of these settings listens. If they are bad, a
// daemon that runs has read other ones, and a stop must find it.
func controlSocket(settings string) string {
	places, _ := config.LoadPlaces(settings)
	return places.Socket()
}
