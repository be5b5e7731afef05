package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/codex/probe"
	"codex-proxy/internal/cli"
	"codex-proxy/workers/homelock"
	"codex-proxy/workers/shim"
)

func notifyExecCommand() *cobra.Command {
	s := &shim.Shim{Probe: probe.Options{Version: versionString()}}
	c := &cobra.Command{
		Use: "notify-exec [OPTION]... -- COMMAND [ARG]...", Short: "run a program as a Type=notify service",
		Long: `
Runs COMMAND as the main process of a systemd unit with Type=notify, for programs
that do not speak sd_notify(3): READY=1 when the probe passes for the first time,
WATCHDOG=1 only while it keeps passing (with WatchdogSec=), STATUS= in words. Each
probe makes a connection of its own.
Signals go on to COMMAND, and its exit status or signal becomes our own. A COMMAND
that the kernel kills for lack of memory leaves ERRNO=12 (ENOMEM), as sd_notify(3)
has it: with OOMPolicy=continue systemd itself calls that a signal.

Where systemd has no growing restart delays (before 254), it first waits for what
is left of the delay that RestartSteps= and RestartMaxDelaySec= ask for.

Exit status: that of COMMAND; 64 for wrong usage; 75 if another process holds the
lock, or the start is refused; 203 if COMMAND cannot be started.
The unit should have KillMode=mixed: else systemd signals COMMAND as well as us.`,
		Args: func(_ *cobra.Command, args []string) error {
			s.Command.Args = args
			if err := s.Validate(); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return s.Run(c.Context(), c.ErrOrStderr()) },
	}
	notifyExecFlags(c.Flags(), s)
	c.Flags().SetInterspersed(false) // the options after COMMAND are its own
	cli.Complete(c, "stderr", "plain", "tracing")
	cli.CompleteBegin(c, "probe", probe.Kinds()...)
	cli.CompleteBegin(c, "ready", probe.Kinds()...)
	return c
}

func notifyExecFlags(flags *pflag.FlagSet, s *shim.Shim) {
	flags.Var(cli.Parsed("KIND:TARGET", "", s.SetProbe), "probe", `how to find out whether COMMAND works:
  appserver:unix:PATH  a codex app-server: handshake, and
                       models listed (at start only)
  tcp:HOST:PORT        accepts a connection
  unix:PATH            the same, over a unix socket
  http:URL             answers GET with 200 to 399;
                       http:unix:PATH[:/TARGET] over a
                       unix socket
  grpc:HOST:PORT[/SERVICE]
                       reports SERVING (grpc.health.v1);
                       grpc:unix:PATH[:/SERVICE] over a
                       unix socket
  grpcs:HOST:PORT[/SERVICE]
                       the same, over TLS
  temporal:HOST:PORT[/NAMESPACE]
                       workflows can start in the namespace
  exec:LINE            shell line that exits with 0
Without a probe, COMMAND is ready as soon as it runs.`)
	flags.Var(cli.Parsed("KIND:TARGET", "", s.AddReady), "ready", `one more probe that must pass for READY=1, such as an
end-to-end one. WATCHDOG=1 does not depend on it. The option may be given several times`)
	flags.Var(cli.Duration(&s.Command.ProbeInterval), "probe-interval", `how often to probe while COMMAND passes.
WatchdogSec= is a multiple of it: systemd kills COMMAND after that time without a pass.
A probe that fails is repeated after a quarter of the interval. The default is a third
of WatchdogSec=; without WatchdogSec=, READY=1 ends the probes`)
	flags.Var(cli.Duration(&s.Command.ProbeTimeout), "probe-timeout", `how long one probe may take, such as 500ms or 3s.
At most --probe-interval. The default is a third of WatchdogSec=, or the interval if that
is shorter; 5s without both; 10s at least until READY=1`)
	flags.Var(cli.Parsed("NUMBER", "", s.SetPasses), "probe-passes", `how often the probes must pass for READY=1.
In succession, 250ms apart; the default is 1`)
	flags.Var(cli.Parsed("LIST", "", s.SetStatuses), "probe-status", `the statuses that pass http:, such as 200,204.
The default is 200 to 399`)
	flags.Var(cli.Text(&s.Probe.Body, "TEXT"), "probe-body", `a text that the answer to http: contains, in its
first 64 KiB`)
	flags.Var(cli.Text(&s.Probe.CA, "PATH"), "probe-ca", `the only certificate authorities for https: and grpcs:,
a file in PEM. The default is those of the system`)
	flags.Var(cli.Duration(&s.Command.StopTimeout), "stop-timeout", `how long COMMAND may run on after a signal to end.
Then it is killed. The default is the time that systemd allows`)
	flags.BoolVar(&s.Command.Drain, "drain", false, `on SIGTERM, let connections end before COMMAND.
`+"`systemctl kill`"+` sends it. COMMAND gets SIGHUP when the connections of --relay have
ended. The unit should have KillSignal=SIGINT, which goes on to COMMAND at once`)
	flags.Var(cli.Text(&s.BlockSIGTERM, "PATH"), "block-sigterm", `if PATH is there, start COMMAND with SIGTERM blocked:
`+"`systemctl kill`"+` sends it to all processes of a unit. What COMMAND starts inherits that`)
	flags.Var(cli.Parsed("FORMAT", "", s.SetStderr), "stderr",
		`the format of COMMAND's standard error: plain or tracing.
plain, the default, is shared as it is. tracing is Rust's format, which codex writes:
in the journal, levels become priorities; with --relay the lines name the proxy's requests`)
	ownerFlags(flags, &s.Owner)
	flags.BoolVar(&s.Waited, "waited", false, `do not wait for the restart delay: the unit has done so,
by worker-wait`)
	flags.Var(cli.Text(&s.Certificates, "PATH"), "certificates", `the only certificate authorities for COMMAND,
as SSL_CERT_FILE=, if PATH is there and the unit sets none`)
	flags.Var(cli.Text(&s.Relay, "NAME"), "relay", `accept connections on the socket that systemd passed under NAME,
once COMMAND is ready`)
	flags.Var(cli.Text(&s.RelayTo, "PATH"), "relay-to", "the unix socket of COMMAND that their bytes go on to")
}

// ownerFlags are options of notify-exec and lock-exec.
func ownerFlags(flags *pflag.FlagSet, o *shim.Owner) {
	flags.Var(cli.Parsed("HOLDER:PATH", "", o.SetLock), "lock",
		`hold a lock (flock(2)) as long as COMMAND, which inherits it, runs:
that of the directory PATH (its file `+homelock.FileName+`), or the file PATH, which is
made if it does not exist. While another process holds it, COMMAND does not start; if
PATH is a directory, the errors of other processes name HOLDER`)
	flags.Var(cli.Text(&o.Refused, "PATH"), "refused",
		`do not start COMMAND if dependency-prepare has refused this start:
it leaves the reason in the file PATH. The exit status is 75 then. A COMMAND that itself
exits with 75 or 78, after which the unit of a dependency does not restart, ends with 1`)
}
