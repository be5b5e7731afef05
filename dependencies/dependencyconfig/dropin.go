package dependencyconfig

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/internal/paths"
	"codex-proxy/internal/unitfile"
	"codex-proxy/units"
)

// DropIn is the text of the unit's drop-in: all that codex-dependency@.service leaves to the file. It has no secret:
// systemd loads credentials from their paths.
func (s *Settings) DropIn() []byte {
	var b unitfile.Lines
	b.Add("# Made of %s at a daemon-reload: edit that file.", s.File)
	s.unit(&b)
	b.Add("\n[Service]")
	s.commands(&b)
	s.surroundings(&b)
	s.confinement(&b)
	s.times(&b)
	return b.Bytes()
}

func (s *Settings) unit(b *unitfile.Lines) {
	b.Add("[Unit]")
	b.Add("Description=%s", unitfile.Text(s.Description))
	for _, dir := range s.Directories {
		b.Add("RequiresMountsFor=%s", unitfile.Path(dir))
	}
}

// commands replaces the command of the template, which reports the fault of a file.
func (s *Settings) commands(b *unitfile.Lines) {
	if len(s.Prepare) > 0 {
		lockExec := append([]string{paths.Program, "lock-exec"}, s.owner()...)
		b.Add("ExecStartPre=%s", unitfile.Command(slices.Concat(lockExec, []string{"--"}, s.Prepare)))
	}
	b.Add("ExecStart=")
	b.Add("ExecStart=%s", unitfile.Command(s.notifyExec()))
}

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

// options are the options of notify-exec.
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

func (s *Settings) surroundings(b *unitfile.Lines) {
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		b.Add("Environment=%s", unitfile.Word(name+"="+s.Environment[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		b.Add("LoadCredential=%s:%s", name, unitfile.Text(s.Credentials[name]))
	}
}

func (s *Settings) confinement(b *unitfile.Lines) {
	if s.User != "" {
		b.Add("DynamicUser=no")
		b.Add("User=%s", s.User)
		b.Add("# Else a stop would delete the shared memory of the user's other processes.")
		b.Add("RemoveIPC=no")
		b.Add("# Else the server would see no other user's name behind a unix socket.")
		b.Add("PrivateUsers=no")
	}
	for _, dir := range s.Directories {
		b.Add("ReadWritePaths=%s", unitfile.Path("-"+dir))
	}
	switch s.Network {
	case NoNetwork:
		b.Add("PrivateNetwork=yes")
	case Loopback:
		b.Add("IPAddressDeny=any")
		b.Add("IPAddressAllow=localhost")
	case AllOfIt:
	}
}

func (s *Settings) times(b *unitfile.Lines) {
	b.Add("WatchdogSec=%s", span(s.Probe.Watchdog().String()))
	b.Add("TimeoutStartSec=%s", span(s.StartTimeout.String()))
	b.Add("TimeoutStopSec=%s", span(s.StopTimeout.String()))
	b.Add("KillSignal=%s", s.StopSignal)
}

// span is a duration as systemd.time(7) has it: there, too, m stands for minutes.
func span(duration string) string { return strings.ReplaceAll(duration, "µ", "u") }
