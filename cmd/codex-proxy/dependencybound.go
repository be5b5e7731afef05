package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/requires"
)

func dependencyBoundCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dependency-bound record|start NAME UNIT...", Short: "start what is bound to a dependency with it again",
		Long: `
Is part of codex-dependency@NAME.service if units are bound to it (bind_requires).
When the dependency ends, record notes which of the units that stops. When the
dependency is ready again, start starts them. What an operator has stopped before that
end stays stopped.`,
		RunE: func(c *cobra.Command, args []string) error {
			manager := units.NewManager()
			defer manager.Close()
			bound := requires.Bound{Dir: paths.DependencyBound, Systemd: manager}
			if err := units.ValidDependencyName(args[1]); err != nil {
				return err
			}
			switch args[0] {
			case "record":
				return bound.Record(c.Context(), args[1], args[2:])
			case "start":
				return bound.Start(c.Context(), args[1], args[2:])
			}
			return fmt.Errorf("there is no %q; use record or start", args[0])
		},
	}
}
