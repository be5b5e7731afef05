package dependency

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/units"
)

// DropIn is the text of the unit's drop-in: all that codex-dependency@.service leaves to the file. It has no secret:
// systemd loads credentials from their paths.
func (s *Settings) DropIn() []byte {
	var b lines
	b.add("# Made of %s at a daemon-reload: edit that file.", s.File)
	s.unit(&b)
	b.add("\n[Service]")
	s.commands(&b)
	s.surroundings(&b)
	s.confinement(&b)
	s.times(&b)
	return b.Bytes()
}

// lines are the lines of a unit file.
type lines struct{ bytes.Buffer }

func (b *lines) add(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

func (s *Settings) unit(b *lines) {
	b.add("[Unit]")
	b.add("Description=%s", text(s.Description))
	for _, dir := range s.Directories {
		b.add("RequiresMountsFor=%s", path(dir))
	}
}

// commands replaces the command of the template, which reports the fault of a file.
func (s *Settings) commands(b *lines) {
	if len(s.Prepare) > 0 {
		lockExec := append([]string{paths.Program, "lock-exec"}, s.owner()...)
		b.add("ExecStartPre=%s", command(slices.Concat(lockExec, []string{"--"}, s.Prepare)))
	}
	b.add("ExecStart=")
	b.add("ExecStart=%s", command(s.notifyExec()))
}

// command is a command line in which "$" means nothing.
func command(args []string) string { return words(append([]string{":" + args[0]}, args[1:]...)...) }

func (s *Settings) notifyExec() []string {
	args := append([]string{paths.Program, "notify-exec", "--waited"}, s.owner()...)
	args = append(append(args, s.Probe.options()...), "--")
	return append(args, s.Command...)
}

// owner are the options that keep the server the only one with its data.
func (s *Settings) owner() []string {
	return []string{"--refused", filepath.Join(paths.DependencyRefusals, s.Name), "--lock",
		units.Dependency(s.Name) + ":" + s.Lock}
}

// options are those of notify-exec.
func (p Probe) options() []string {
	options := []string{"--probe", p.Check}
	if p.Ready != "" {
		options = append(options, "--ready", p.Ready)
	}
	options = append(options, "--probe-interval", p.Interval.String(), "--probe-timeout", p.Timeout.String(),
		"--probe-passes", strconv.Itoa(p.Passes))
	if len(p.Status) > 0 {
		options = append(options, "--probe-status", p.statuses())
	}
	if p.Body != "" {
		options = append(options, "--probe-body", p.Body)
	}
	if p.CA != "" {
		options = append(options, "--probe-ca", p.CA)
	}
	return options
}

func (p Probe) statuses() string {
	list := make([]string, len(p.Status))
	for i, status := range p.Status {
		list[i] = strconv.Itoa(status)
	}
	return strings.Join(list, ",")
}

func (s *Settings) surroundings(b *lines) {
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		b.add("Environment=%s", word(name+"="+s.Environment[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		b.add("LoadCredential=%s:%s", name, text(s.Credentials[name]))
	}
}

func (s *Settings) confinement(b *lines) {
	if s.User != "" {
		b.add("DynamicUser=no")
		b.add("User=%s", s.User)
		b.add("# Else a stop would delete the shared memory of the user's other processes.")
		b.add("RemoveIPC=no")
		b.add("# Else the server would see no other user's name behind a unix socket.")
		b.add("PrivateUsers=no")
	}
	for _, dir := range s.Directories {
		b.add("ReadWritePaths=%s", path("-"+dir))
	}
	switch s.Network {
	case NoNetwork:
		b.add("PrivateNetwork=yes")
	case Loopback:
		b.add("IPAddressDeny=any")
		b.add("IPAddressAllow=localhost")
	case AllOfIt:
	}
}

func (s *Settings) times(b *lines) {
	b.add("WatchdogSec=%s", span(s.Probe.Watchdog().String()))
	b.add("TimeoutStartSec=%s", span(s.StartTimeout.String()))
	b.add("TimeoutStopSec=%s", span(s.StopTimeout.String()))
	b.add("KillSignal=%s", s.StopSignal)
}

// span is a duration as systemd.time(7) has it: there, too, m stands for minutes.
func span(duration string) string { return strings.ReplaceAll(duration, "µ", "u") }
