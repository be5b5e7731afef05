package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/paths"
)

// controlFlag is the option by which a command finds the daemon: called after the
// options are parsed, it is the path.
func controlFlag(flags *pflag.FlagSet) func() string {
	var path string
	flags.Var(cli.Text(&path, "PATH"), "socket", "the daemon's control socket (as config.toml says)")
	return func() string { return cmp.Or(path, controlSocket(config.DefaultPath)) }
}

// controlSocket is where the daemon of these settings listens. If they are bad, one
// that runs has read others, and a stop must find it.
func controlSocket(settings string) string {
	places, _ := config.LoadPlaces(settings)
	return controlSocketOf(places)
}

// controlSocketOf goes by what is there, while the daemon has not read of a new place.
func controlSocketOf(places config.Places) string {
	if _, err := os.Lstat(places.ControlSocket); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(paths.ControlSocket); err == nil {
			return paths.ControlSocket
		}
	}
	return cmp.Or(places.ControlSocket, paths.ControlSocket)
}
