package dependenciescli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"codex-proxy/dependencies/dependenciescheck"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/cli"
	"codex-proxy/notify"
	"codex-proxy/units"
)

// Check prints the plan of a dependency's unit, and each fault that prevents its start with the remedy. With a fault
// the exit status is 78.
func (d *Dependencies) Check(ctx context.Context, name string) error {
	s, err := dependencyconfig.Load(d.of(name).file)
	if err != nil {
		return cli.Exit(cli.Config, err)
	}
	unit, err := d.describe(ctx, units.Dependency(name))
	if err != nil {
		return err
	}
	claims := d.claims(ctx, s)
	if err := d.writePlan(s, unit, claims); err != nil {
		return err
	}
	faults := append(dependenciescheck.Faults(s), claims.faults...)
	for _, fault := range faults {
		d.print("fault: %s", fault)
	}
	if len(faults) > 0 {
		return cli.Exit(cli.Config, fmt.Errorf("%s cannot start", units.Dependency(name)))
	}
	return nil
}

// Report is Check as the command of a unit without a drop-in of its file: the fault of the file is the status of the
// unit, and the exit status is always 78.
func (d *Dependencies) Report(name string, notifier *notify.Notifier) error {
	file := d.of(name).file
	_, err := dependencyconfig.Load(file)
	if err == nil {
		err = fmt.Errorf("%s is valid, but systemd has not read it: systemctl daemon-reload, then start again", file)
	}
	notifier.Status("Not started: " + strings.Join(strings.Fields(err.Error()), " "))
	return cli.Exit(cli.Config, err)
}

// writePlan writes the plan.
func (d *Dependencies) writePlan(s *dependencyconfig.Settings, unit units.Description, claims claims) error {
	out := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s is valid.\n\n", s.File)
	for _, line := range [][2]string{
		{"unit", unitWords(unit)},
		{"command", commandWords(s.Command)},
		{"prepare", commandWords(s.Prepare)},
		{"user", userWords(s)},
		{"writes", strings.Join(writable(s), ", ")},
		{"hidden", "/home, /root, the processes and /tmp of others"},
		{"network", networkWords(s.Network)},
		{"check", checkWords(s.Probe)},
		{"ready", readyWords(s.Probe)},
		{"hung", fmt.Sprintf("after %s without a pass; then it is killed and restarted", s.Probe.Watchdog())},
		{"start", fmt.Sprintf("within %s", s.StartTimeout)},
		{"stop", fmt.Sprintf("%s, killed after %s", s.StopSignal, s.StopTimeout)},
		{"ports", claims.ports},
		{"lock", claims.lock},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "%s\t%s\n", line[0], line[1])
		}
	}
	return out.Flush()
}

func unitWords(u units.Description) string {
	if u.ActiveState == "" {
		return u.Unit + ", not known to systemd"
	}
	words := fmt.Sprintf("%s, %s (%s)", u.Unit, u.ActiveState, u.SubState)
	if u.FileState != "" {
		words += ", " + u.FileState + " at boot"
	}
	if u.NeedReload {
		words += "; systemd has not read a change: systemctl daemon-reload"
	}
	return words
}

// commandWords is a command line as a shell would take it.
func commandWords(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\"'\\$`*?[]{}()<>|&;#~!") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

func userWords(s *dependencyconfig.Settings) string {
	if s.User != "" {
		return s.User
	}
	return units.DependencyUser(s.Name) + ", a user of its own"
}

func writable(s *dependencyconfig.Settings) []string {
	return append([]string{dependencyconfig.StateDir(s.Name), dependencyconfig.RuntimeDir(s.Name)}, s.Directories...)
}

func networkWords(n dependencyconfig.Network) string {
	switch n {
	case dependencyconfig.NoNetwork:
		return "none, only unix sockets"
	case dependencyconfig.Loopback:
		return "this machine alone (127.0.0.0/8, ::1)"
	default:
		return "every network"
	}
}

func checkWords(p dependencyconfig.Probe) string {
	words := fmt.Sprintf("%s every %s, at most %s each", p.Check, p.Interval, p.Timeout)
	if p.Passes > 1 {
		words += fmt.Sprintf("; ready after %d passes", p.Passes)
	}
	return words
}

func readyWords(p dependencyconfig.Probe) string {
	if p.Ready == "" {
		return ""
	}
	return "once " + p.Ready + " passes, too"
}
