package main

import (
	"errors"

	"github.com/spf13/cobra"

	"codex-proxy/cmd/internal/dependency"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/cmd/internal/requires"
)

func dependencyGenerateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dependency-generate DIR", Short: "make the units of the dependencies (systemd.generator(7))",
		Long: `
Writes into DIR, for each valid /etc/codex-proxy/dependencies/NAME.toml, the drop-in
of codex-dependency@NAME.service, and the drop-ins of the units whose settings
require dependencies. systemd runs it at boot and at daemon-reload, by
/usr/lib/systemd/system-generators/codex-dependencies. It names each file with a
fault, which changes nothing for the others.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return errors.Join(dependency.Generate(paths.DependencySettings, args[0]),
				requires.Generate(paths.Settings, args[0]))
		},
	}
}
