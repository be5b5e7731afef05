package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
	"codex-proxy/units/survey"
	"codex-proxy/workers/workerscheck"
)

// checkConfig checks that the files are valid, and that the running processes have
// read them since their last change.
func (s *service) checkConfig(context.Context) []checkup.Finding {
	var found []checkup.Finding
	if s.configErr != nil {
		found = append(found, s.badConfig(s.configErr))
	}
	for _, w := range s.workers {
		if w.Err != nil {
			found = append(found, workerscheck.Blame(w.Subject(), w.Err, "correct the file"))
			found[len(found)-1].Remedy += "; then systemctl restart " + w.Unit()
		}
	}
	keys, err := s.keys()
	switch {
	case errors.Is(err, fs.ErrPermission):
		found = append(found, survey.Unprivileged(paths.KeyFile, "read it"))
	case err != nil:
		found = append(found, checkup.Failure(paths.KeyFile, err.Error(),
			"mend or remove the line; then systemctl restart codex-proxy"))
	case keys.Empty() && !keys.Shared():
		found = append(append(found, s.exposed()...), s.keyless(keys)...)
	}
	found = append(found, s.unread()...)
	return checkup.OrPassed(found, paths.Config+" and the worker files are good"+s.inUse())
}

func (s *service) badConfig(err error) checkup.Finding {
	if errors.Is(err, fs.ErrPermission) {
		return survey.Unprivileged(paths.Config, "read it")
	}
	apply := "systemctl reset-failed codex-proxy && systemctl start codex.target"
	if s.Running(paths.ServiceUnit) { // with the settings that it read before
		apply = "systemctl reload codex-proxy"
	}
	return checkup.Failure("", err.Error(), "correct it until codex-proxy config check is content; then "+apply)
}

// inUse is the end of the sentence if the processes could be checked, too.
func (s *service) inUse() string {
	if s.ReportErr != nil || s.StartOf(s.Units[paths.ServiceUnit].MainPID).IsZero() {
		return ""
	}
	return ", and in use"
}

// keys are the API keys of the file that config.toml names, or else of the unit's
// credential.
func (s *service) keys() (*auth.Keys, error) {
	if s.config != nil && s.config.KeyFile != "" {
		return s.config.Keys, nil
	}
	text, err := os.ReadFile(s.Path(paths.KeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // checkPermissions reports it
	}
	if err != nil {
		return nil, err
	}
	return auth.Parse(bytes.NewReader(text))
}

func (s *service) keyFile() string {
	if s.config == nil {
		return paths.KeyFile
	}
	return cmp.Or(s.config.KeyFile, paths.KeyFile)
}

// exposed finds addresses at which every host of the network could use the API.
func (s *service) exposed() []checkup.Finding {
	var found []checkup.Finding
	for _, address := range s.Units[paths.SocketUnit].Listen {
		host, _, err := net.SplitHostPort(address)
		ip := net.ParseIP(host)
		if err == nil && ip != nil && !ip.IsLoopback() {
			found = append(found, checkup.Failure(paths.SocketUnit,
				"listens on "+address+" and there are no API keys: the service refuses to start",
				"codex-proxy keys add NAME, or listen on 127.0.0.1: systemctl edit codex-proxy.socket"))
		}
	}
	return found
}

// keyless finds faults of a service without keys: pages need one, or it accepts no
// request.
func (s *service) keyless(keys *auth.Keys) []checkup.Finding {
	var found []checkup.Finding
	if s.config != nil {
		if err := s.config.Pages.Check(keys); err != nil {
			found = append(found, s.badConfig(err))
		}
	}
	if keys.Closed() {
		found = append(found, checkup.Warning(s.keyFile(), "holds no key, and every request needs one",
			"codex-proxy keys add NAME; or, for programs on this machine alone, codex-proxy keys open"))
	}
	return found
}

// unread finds changes that the running processes have not read yet.
func (s *service) unread() []checkup.Finding {
	var found []checkup.Finding
	proxy := s.Units[paths.ServiceUnit]
	if proxy.Active() {
		if s.ChangedSince(paths.Config, proxy.MainPID) {
			found = append(found, checkup.Warning(paths.Config, "has changed since the service read it",
				"systemctl reload codex-proxy"))
		}
		if keys, err := s.keys(); err == nil && s.inForce.Digest != "" && s.inForce.Digest != keys.Digest() {
			found = append(found, checkup.Warning(s.keyFile(), "differs from the keys in force", s.applyKeys()))
		}
	}
	for _, w := range s.workers {
		file := w.File()
		if d := s.Units[w.Unit()]; d.Active() && s.ChangedSince(file, d.MainPID) {
			found = append(found, checkup.Warning(file, "has changed since the worker read it",
				"systemctl restart "+w.Unit()))
		}
	}
	return append(found, s.otherWorkers()...)
}

// applyKeys is the command that brings the key file into force.
func (s *service) applyKeys() string {
	if file := s.inForce.File; file != "" && file != filepath.Clean(s.keyFile()) {
		return "systemctl reload codex-proxy"
	}
	return "codex-proxy keys apply"
}

// otherWorkers finds workers that only the files have, or only the service.
func (s *service) otherWorkers() []checkup.Finding {
	if s.ReportErr != nil || s.configErr != nil {
		return nil
	}
	var found []checkup.Finding
	for _, name := range s.config.Workers {
		if !slices.ContainsFunc(s.Report.Workers, func(w probes.Worker) bool { return w.Name == name }) {
			found = append(found, checkup.Warning("worker "+name, "is not known to the running service",
				"systemctl reload codex-proxy"))
		}
	}
	for _, w := range s.Report.Workers {
		if !slices.Contains(s.config.Workers, w.Name) {
			found = append(found, checkup.Warning("worker "+w.Name, "is not configured, but the running service has it",
				"systemctl reload codex-proxy"))
		}
	}
	return found
}
