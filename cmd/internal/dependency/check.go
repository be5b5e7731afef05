package dependency

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"codex-proxy/cmd/internal/paths"
	"codex-proxy/cmd/internal/probe"
)

// misfit is the fault of a value.
type misfit struct {
	key, text string
}

func (m *misfit) Error() string { return m.key + ": " + m.text }

func wrong(key, format string, args ...any) error { return &misfit{key, fmt.Sprintf(format, args...)} }

// Bounds of lists and texts.
const (
	maxWords = 256
	maxItems = 64
	maxText  = 256 // of Description=
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

func (r rawProbe) filled(f *filling) Probe {
	return Probe{Check: f.one("probe.check", r.Check), Ready: f.one("probe.ready", r.Ready),
		Interval: r.Interval.Duration, Timeout: r.Timeout.Duration, Failures: r.Failures, Passes: r.Passes,
		Status: r.Status, Body: r.Body, CA: r.CA}
}

// filling fills the placeholders of many values, and keeps the first error.
type filling struct {
	placeholders
	err error
}

func (f *filling) one(key, text string) string {
	filled, err := f.fill(text)
	if err == nil {
		err = printable(filled)
	}
	if err != nil && f.err == nil {
		f.err = wrong(key, "%v", err)
	}
	return filled
}

func (f *filling) all(key string, texts []string) []string {
	if len(texts) > maxWords && f.err == nil {
		f.err = wrong(key, "has more than %d words: put them into a script", maxWords)
		return nil
	}
	filled := make([]string, len(texts))
	for i, text := range texts {
		filled[i] = f.one(key, text)
	}
	return filled
}

func (f *filling) values(key string, texts map[string]string) map[string]string {
	filled := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		filled[name] = f.one(key+"."+name, texts[name])
	}
	return filled
}

// printable is the error of a text that a line of a unit cannot hold.
func printable(text string) error {
	for _, r := range text {
		if unicode.IsControl(r) && r != '\t' || r == unicode.ReplacementChar {
			return fmt.Errorf("%q has the control character %U: a unit cannot pass it on; put the text into a script",
				text, r)
		}
	}
	return nil
}

func (s *Settings) checkDescription() error {
	switch err := printable(s.Description); {
	case err != nil:
		return wrong("description", "%v", err)
	case len(s.Description) > maxText:
		return wrong("description", "is longer than %d bytes", maxText)
	case strings.TrimSpace(s.Description) != s.Description || strings.HasSuffix(s.Description, `\`):
		return wrong("description", "%q begins or ends with a space, or ends with a backslash: remove that",
			s.Description)
	}
	return nil
}

// programName is one that systemd finds on its own path.
var programName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)

func (s *Settings) checkCommands() error {
	if len(s.Command) == 0 {
		return wrong("command", `is missing: name the program and its arguments, as in command = ["/usr/bin/server", `+
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
		return wrong(key, "%q is not a program: its first word must be an absolute path such as /usr/bin/server, or a "+
			"name such as server; a shell takes [\"sh\", \"-c\", \"LINE\"]", program)
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ofSystemd are the variables that systemd sets, and a unit's Environment= would replace (systemd.exec(5)).
var ofSystemd = regexp.MustCompile(`^(NOTIFY_SOCKET|WATCHDOG_(PID|USEC)|LISTEN_(FDS|PID|FDNAMES|PIDFDID)|MAINPID|` +
	`MANAGERPID|INVOCATION_ID|JOURNAL_STREAM|(STATE|RUNTIME|CREDENTIALS)_DIRECTORY|SYSTEMD_EXEC_PID)$`)

func (s *Settings) checkEnvironment() error {
	if len(s.Environment) > maxWords {
		return wrong("environment", "has more than %d variables", maxWords)
	}
	for name := range s.Environment {
		switch {
		case !variableName.MatchString(name):
			return wrong("environment."+name, "%q is not the name of a variable: use letters, digits and _", name)
		case ofSystemd.MatchString(name):
			return wrong("environment."+name, "systemd sets this variable itself: remove it")
		}
	}
	return nil
}

var credentialName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

func (s *Settings) checkCredentials() error {
	if len(s.Credentials) > maxItems {
		return wrong("credentials", "has more than %d", maxItems)
	}
	for name, path := range s.Credentials {
		if !credentialName.MatchString(name) {
			return wrong("credentials."+name, "%q is not the name of a credential: use 1 to 64 letters, digits, _, - "+
				"and .", name)
		}
		if err := checkPath("credentials."+name, path); err != nil {
			return err
		}
	}
	return nil
}

// checkPath accepts the paths that systemd and a human read alike.
func checkPath(key, path string) error {
	switch err := printable(path); {
	case err != nil:
		return wrong(key, "%v", err)
	case !filepath.IsAbs(path):
		return wrong(key, "%q is not an absolute path", path)
	case filepath.Clean(path) != path:
		return wrong(key, "%q is not the shortest form of the path: write %q", path, filepath.Clean(path))
	case strings.ContainsAny(path, "\"\\\t") || strings.HasSuffix(path, " "):
		return wrong(key, "%q has a quote, backslash or tab, or ends with a space, which a unit cannot pass on: "+
			"rename it or link to it", path)
	case len(path) > 1024:
		return wrong(key, "the path is longer than 1024 bytes")
	}
	return nil
}

var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)

func (s *Settings) checkUser() error {
	switch u := s.User; {
	case u == "":
	case !userName.MatchString(u):
		return wrong("user", "%q is not the name of a user; empty: a user of its own", u)
	case u == "root":
		return wrong("user", "a dependency does not run as root: name a user without privileges, or leave user empty "+
			"for one of its own")
	case u == paths.User, u == paths.WorkerUser, strings.HasPrefix(u, "cw-"), strings.HasPrefix(u, "cd-"):
		return wrong("user", "%q belongs to codex-proxy: name another user, or leave user empty for one of its own", u)
	}
	return nil
}

// ours are the directories that no dependency writes to.
var ours = []string{paths.Settings, paths.StateDir, paths.WorkerHomes, paths.DependencyStates, "/var/lib/private",
	paths.WorkerSockets, paths.DependencyRuntimeDirs, "/run/codex-worker", "/run/credentials", "/run/systemd",
	"/etc/systemd", "/usr", "/boot", "/proc", "/sys", "/dev"}

func (s *Settings) checkDirectories() error {
	if len(s.Directories) > maxItems {
		return wrong("directories", "has more than %d", maxItems)
	}
	for _, dir := range s.Directories {
		if err := checkPath("directories", dir); err != nil {
			return err
		}
		for _, of := range ours {
			if within(dir, of) || within(of, dir) {
				return wrong("directories", "%q is, or holds, a directory of the system or of codex-proxy (%s): name "+
					"a directory of the dependency's data alone", dir, of)
			}
		}
	}
	return nil
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func (s *Settings) checkNetwork() error {
	switch s.Network {
	case NoNetwork, Loopback, AllOfIt:
	default:
		return wrong("network", `%q is unknown: choose "none", "loopback" or "all"`, s.Network)
	}
	if s.Network == NoNetwork && len(s.Ports) > 0 {
		return wrong("ports", `nothing reaches a port with network = "none": remove ports, or set network = "loopback"`)
	}
	if len(s.Ports) > maxItems {
		return wrong("ports", "has more than %d", maxItems)
	}
	for i, port := range s.Ports {
		if port < 1 || port > 65535 {
			return wrong("ports", "%d is not a port: use 1 to 65535", port)
		}
		if slices.Contains(s.Ports[:i], port) {
			return wrong("ports", "%d stands there twice", port)
		}
	}
	return nil
}

func (s *Settings) checkLock() error { return checkPath("lock", s.Lock) }

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
			return wrong(t.key, "%q must be between %s and %s", t.value, t.least, t.most)
		}
	}
	return nil
}

// signals are those that notify-exec passes on and that end programs.
var signals = []string{"SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2"}

func (s *Settings) checkSignal() error {
	if !slices.Contains(signals, s.StopSignal) {
		return wrong("stop_signal", "%q is not one of %s", s.StopSignal, strings.Join(signals, ", "))
	}
	return nil
}

func (p Probe) check() error {
	switch {
	case p.Check == "":
		return wrong("probe.check", `is missing: name how to find out whether the server works, such as `+
			`"tcp:127.0.0.1:8080" or "http://127.0.0.1:8080/health"`)
	case p.Failures < 2 || p.Failures > 100:
		return wrong("probe.failures", "%d must be between 2 and 100", p.Failures)
	case p.Passes < 1 || p.Passes > 100:
		return wrong("probe.passes", "%d must be between 1 and 100", p.Passes)
	case p.Failures == 2 && p.Timeout >= p.Interval:
		return wrong("probe.timeout", "%q must be less than interval = %q with failures = 2, or systemd kills a "+
			"server that works", p.Timeout, p.Interval)
	}
	return p.checkKinds()
}

// checkKinds checks the probes as notify-exec reads them.
func (p Probe) checkKinds() error {
	options := probe.Options{Statuses: p.Status, Body: p.Body, CA: p.CA}
	var probes []probe.Probe
	for _, of := range []struct{ key, value string }{{"probe.check", p.Check}, {"probe.ready", p.Ready}} {
		if of.value == "" {
			continue
		}
		parsed, err := probe.Parse(of.value, options)
		if err != nil {
			return wrong(of.key, "%q: %v", of.value, err)
		}
		probes = append(probes, parsed)
	}
	if len(p.Status) > maxItems {
		return wrong("probe.status", "has more than %d", maxItems)
	}
	var fault *probe.OptionError
	if err := options.UsedBy(probes...); errors.As(err, &fault) {
		return wrong("probe."+fault.Option, "%s", fault.Reason)
	}
	if err := printable(p.Body); err != nil {
		return wrong("probe.body", "%v", err)
	}
	if p.CA == "" {
		return nil
	}
	return checkPath("probe.ca", p.CA)
}
