package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"codex-proxy/broker/brokerunit"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/paths"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/workerhands"
	"codex-proxy/units/requires"
	"codex-proxy/workers/sharing"
)

// operatorUnits are the directories of drop-ins, the strongest last (systemd.unit(5)): `systemctl edit` and
// `systemctl set-property` write into some, and the administrator's own packages into /usr/local.
var operatorUnits = []string{"/usr/local/lib/systemd/system", "/run/systemd/system", paths.OperatorUnits,
	"/run/systemd/system.control", "/etc/systemd/system.control"}

func generateUnitsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "generate-units DIR", Short: "make the units of dependencies and remotes (systemd.generator(7))",
		Long: `
Writes into DIR, for each valid /etc/codex-proxy/dependencies/NAME.toml, the drop-in
of codex-dependency@NAME.service; for each valid /etc/codex-proxy/remotes/NAME.toml
those of codex-remote@NAME.service and its socket; for each worker with network = "model"
those of codex-broker@NAME.service and of the worker, which does not run if processes
in config.toml has another worker serve its account, and without a [provider] that of
codex-login@NAME.service, whose socket codex.target then wants; for each worker with
[hands] those of codex-hands@NAME.service and of the worker; and the drop-ins of the
units whose settings require dependencies. systemd runs it at boot and at daemon-reload, by
/usr/lib/systemd/system-generators/codex-units. It names each file with a
fault, which changes nothing for the others, on stderr and, if systemd runs it, in
the kernel's log. The exit status is 0 all the same: the unit of the file fails.`,
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := sharing.Configured(paths.Config, paths.WorkerSettings,
				sharing.In(paths.WorkerRuntimeDirs, paths.BrokerStates))
			logFaults(c.ErrOrStderr(), errors.Join(err, dependencyconfig.Generate(paths.DependencySettings, args[0]),
				remoteconfig.Generate(paths.RemoteSettings, args[0]), requires.Generate(paths.Settings, args[0]),
				brokerunit.Generate(paths.WorkerSettings, hosts, operatorUnits, args[0]),
				workerhands.Generate(paths.WorkerSettings, args[0])))
			return nil
		},
	}
}

const (
	// kernelLog is where a generator logs: the journal may not run yet (systemd.generator(7)).
	kernelLog = "/dev/kmsg"
	// mostFaults bounds the lines that a generator logs; the kernel takes 10 in 5 s of one descriptor (printk.devkmsg).
	mostFaults = 10
	// longestFault bounds such a line, in bytes: the kernel refuses one of more than 1 KiB.
	longestFault = 900
)

// logFaults writes a line for each fault to stderr, and to the kernel's log if systemd has started this process as a
// generator of the system (SYSTEMD_SCOPE, systemd.generator(7)). A container may have no such log.
func logFaults(stderr io.Writer, faults error) {
	if faults == nil {
		return
	}
	outs := []io.Writer{stderr}
	if os.Getenv("SYSTEMD_SCOPE") == "system" {
		if kernel, err := os.OpenFile(kernelLog, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			defer func() { _ = kernel.Close() }()
			outs = append(outs, kernel)
		}
	}
	lines := strings.Split(faults.Error(), "\n")
	for _, line := range lines[:min(len(lines), mostFaults)] {
		for _, out := range outs { // <4> is a warning (sd-daemon(3)); the kernel needs one write for each line
			_, _ = fmt.Fprintf(out, "<4>codex-units[%d]: %s\n", os.Getpid(), line[:min(len(line), longestFault)])
		}
	}
}
