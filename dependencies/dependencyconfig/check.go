package dependencyconfig

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/settingsfile"
)

// settings checks the values, and replaces the placeholders in them.
func (r raw) settings(name string) (*Settings, error) {
	s := &Settings{Name: name, Description: r.Description, User: r.User, Directories: r.Directories,
		Credentials: r.Credentials, Network: Network(r.Network), Ports: r.Ports,
		StartTimeout: r.StartTimeout.Duration, StopTimeout: r.StopTimeout.Duration, StopSignal: r.StopSignal}
	f := filling{placeholders: placeholdersOf(name)}
	s.Command = f.all("command", r.Command)
	s.Prepare = f.all("prepare", r.Prepare)
	s.Environment = f.values("environment", r.Environment)
	s.Lock = f.one("lock", r.Lock)
	s.Probe = r.Probe.filled(&f)
	if f.err != nil {
		return nil, f.err
	}
	if s.Description == "" {
		s.Description = "dependency " + name
	}
	if s.Lock == "" {
		s.Lock = filepath.Join(StateDir(name), ".lock")
	}
	for _, check := range []func() error{s.checkDescription, s.checkCommands, s.checkEnvironment, s.checkCredentials,
		s.checkUser, s.checkDirectories, s.checkNetwork, s.checkLock, s.checkTimes, s.checkSignal, s.Probe.check} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Settings) checkDescription() error { return settingsfile.CheckDescription(s.Description) }

// programName is one that systemd finds on its own path.
var programName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

func (s *Settings) checkCommands() error {
	if len(s.Command) == 0 {
		return settingsfile.Wrong("command",
			`is missing: name the program and its arguments, as in command = ["/usr/bin/server", `+
				`"--port", "8080"]`)
	}
	if err := checkProgram("command", s.Command[0]); err != nil || len(s.Prepare) == 0 {
		return err
	}
	return checkProgram("prepare", s.Prepare[0])
}

func checkProgram(key, program string) error {
	if programName.MatchString(program) {
		return nil
	}
	if !filepath.IsAbs(program) || filepath.Clean(program) != program || program == "/" {
		return settingsfile.Wrong(key,
			"%q is not a program: its first word must be an absolute path such as /usr/bin/server, or a "+
				"name such as server; a shell takes [\"sh\", \"-c\", \"LINE\"]", program)
	}
	return checkVisible(key, program)
}

var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ofSystemd are the variables that systemd sets, and a unit's Environment= would replace (systemd.exec(5)).
var ofSystemd = lazyregexp.New(`^(NOTIFY_SOCKET|WATCHDOG_(PID|USEC)|LISTEN_(FDS|PID|FDNAMES|PIDFDID)|MAINPID|` +
	`MANAGERPID|INVOCATION_ID|JOURNAL_STREAM|(STATE|RUNTIME|CREDENTIALS)_DIRECTORY|SYSTEMD_EXEC_PID)$`)

func (s *Settings) checkEnvironment() error {
	if len(s.Environment) > maxWords {
		return settingsfile.Wrong("environment", "has more than %d variables", maxWords)
	}
	for name := range s.Environment {
		switch {
		case !variableName.MatchString(name):
			return settingsfile.Wrong("environment."+name,
				"%q is not the name of a variable: use letters, digits and _", name)
		case ofSystemd.MatchString(name):
			return settingsfile.Wrong("environment."+name, "systemd sets this variable itself: remove it")
		}
	}
	return nil
}

var credentialName = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (s *Settings) checkCredentials() error {
	if len(s.Credentials) > maxItems {
		return settingsfile.Wrong("credentials", "has more than %d", maxItems)
	}
	for name, path := range s.Credentials {
		if len(name) > 64 || !credentialName.MatchString(name) {
			return settingsfile.Wrong("credentials."+name,
				"%q is not the name of a credential: use 1 to 64 letters, digits, _, - "+
					"and .", name)
		}
		if err := checkPath("credentials."+name, path); err != nil {
			return err
		}
	}
	return nil
}

func (s *Settings) checkUser() error {
	return settingsfile.CheckUser(s.User,
		"a dependency does not run as root: name a user without privileges, or leave "+
			"user empty for one of its own")
}

func (s *Settings) checkNetwork() error {
	switch s.Network {
	case NoNetwork, Loopback, AllOfIt:
	default:
		return settingsfile.Wrong("network", `%q is unknown: choose "none", "loopback" or "all"`, s.Network)
	}
	if s.Network == NoNetwork && len(s.Ports) > 0 {
		return settingsfile.Wrong("ports",
			`nothing reaches a port with network = "none": remove ports, or set network = "loopback"`)
	}
	if len(s.Ports) > maxItems {
		return settingsfile.Wrong("ports", "has more than %d", maxItems)
	}
	for i, port := range s.Ports {
		if port < 1 || port > 65535 {
			return settingsfile.Wrong("ports", "%d is not a port: use 1 to 65535", port)
		}
		if slices.Contains(s.Ports[:i], port) {
			return settingsfile.Wrong("ports", "%d stands there twice", port)
		}
	}
	return nil
}

func (s *Settings) checkTimes() error {
	for _, t := range []struct {
		key         string
		value       time.Duration
		least, most time.Duration
	}{
		{"start_timeout", s.StartTimeout, time.Second, 24 * time.Hour},
		{"stop_timeout", s.StopTimeout, 100 * time.Millisecond, 24 * time.Hour},
		{"probe.interval", s.Probe.Interval, 100 * time.Millisecond, time.Hour},
		{"probe.timeout", s.Probe.Timeout, 10 * time.Millisecond, s.Probe.Interval},
	} {
		if t.value < t.least || t.value > t.most {
			return settingsfile.Wrong(t.key, "%q must be between %s and %s", t.value, t.least, t.most)
		}
	}
	return nil
}

// signals are those that notify-exec passes on and that end programs.
var signals = []string{"SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2"}

func (s *Settings) checkSignal() error {
	if !slices.Contains(signals, s.StopSignal) {
		return settingsfile.Wrong("stop_signal", "%q is not one of %s", s.StopSignal, strings.Join(signals, ", "))
	}
	return nil
}
