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

	"codex-proxy/probes"
	"codex-proxy/proxy/auth"
)

// checkConfig checks that the files are valid, and that the running processes have
// read them since their last change.
func checkConfig(_ context.Context, s *survey) []Finding {
	var found []Finding
	if s.configErr != nil {
		found = append(found, s.badConfig(s.configErr))
	}
	for _, w := range s.workers {
		if w.err != nil {
			found = append(found, blame("worker "+w.name, w.err, "correct the file"))
			found[len(found)-1].Remedy += "; then systemctl restart " + w.unit()
		}
	}
	keys, err := s.keys()
	switch {
	case errors.Is(err, fs.ErrPermission):
		found = append(found, unprivileged(keyFile, "read it"))
	case err != nil:
		found = append(found, fail(keyFile, err.Error(), "mend or remove the line; then systemctl restart codex-proxy"))
	case keys.Empty():
		found = append(append(found, s.exposed()...), s.keyless(keys)...)
	}
	found = append(found, s.unread()...)
	return orOK(found, configFile+" and the worker files are good"+s.inUse())
}

func (s *survey) badConfig(err error) Finding {
	if errors.Is(err, fs.ErrPermission) {
		return unprivileged(configFile, "read it")
	}
	apply := "systemctl reset-failed codex-proxy && systemctl start codex.target"
	if s.running(proxyUnit) { // with the settings that it read before
		apply = "systemctl reload codex-proxy"
	}
	return fail("", err.Error(), "correct it until codex-proxy config check is content; then "+apply)
}

// inUse is the end of the sentence if the processes could be checked, too.
func (s *survey) inUse() string {
	if s.reportErr != nil || s.startOf(s.units[proxyUnit].MainPID).IsZero() {
		return ""
	}
	return ", and in use"
}

// keys are the API keys of the file that config.toml names, or else of the unit's
// credential.
func (s *survey) keys() (*auth.Keys, error) {
	if s.config != nil && s.config.KeyFile != "" {
		return s.config.Keys, nil
	}
	text, err := os.ReadFile(s.path(keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // checkPermissions reports it
	}
	if err != nil {
		return nil, err
	}
	return auth.Parse(bytes.NewReader(text))
}

func (s *survey) keyFile() string {
	if s.config == nil {
		return keyFile
	}
	return cmp.Or(s.config.KeyFile, keyFile)
}

// exposed finds addresses at which every host of the network could use the API.
func (s *survey) exposed() []Finding {
	var found []Finding
	for _, address := range s.units[socketUnit].Listen {
		host, _, err := net.SplitHostPort(address)
		ip := net.ParseIP(host)
		if err == nil && ip != nil && !ip.IsLoopback() {
			found = append(found, fail(socketUnit,
				"listens on "+address+" and there are no API keys: the service refuses to start",
				"codex-proxy keys add NAME, or listen on 127.0.0.1: systemctl edit codex-proxy.socket"))
		}
	}
	return found
}

// keyless finds faults of a service without keys: pages need one, or it accepts no
// request.
func (s *survey) keyless(keys *auth.Keys) []Finding {
	var found []Finding
	if s.config != nil {
		if err := s.config.Pages.Check(keys); err != nil {
			found = append(found, s.badConfig(err))
		}
	}
	if keys.Closed() {
		found = append(found, warn(s.keyFile(), "holds no key, and every request needs one",
			"codex-proxy keys add NAME; or, for programs on this machine alone, codex-proxy keys open"))
	}
	return found
}

// unread finds changes that the running processes have not read yet.
func (s *survey) unread() []Finding {
	var found []Finding
	proxy := s.units[proxyUnit]
	if proxy.Active() {
		if s.changedSince(configFile, proxy.MainPID) {
			found = append(found, warn(configFile, "has changed since the service read it",
				"systemctl reload codex-proxy"))
		}
		if keys, err := s.keys(); err == nil && s.inForce.Digest != "" && s.inForce.Digest != keys.Digest() {
			found = append(found, warn(s.keyFile(), "differs from the keys in force", s.applyKeys()))
		}
	}
	for _, w := range s.workers {
		file := workerFile(w.name)
		if d := s.units[w.unit()]; d.Active() && s.changedSince(file, d.MainPID) {
			found = append(found, warn(file, "has changed since the worker read it", "systemctl restart "+w.unit()))
		}
	}
	return append(found, s.otherWorkers()...)
}

// applyKeys is the command that brings the key file into force.
func (s *survey) applyKeys() string {
	if file := s.inForce.File; file != "" && file != filepath.Clean(s.keyFile()) {
		return "systemctl reload codex-proxy"
	}
	return "codex-proxy keys apply"
}

// otherWorkers finds workers that only the files have, or only the service.
func (s *survey) otherWorkers() []Finding {
	if s.reportErr != nil || s.configErr != nil {
		return nil
	}
	var found []Finding
	for _, name := range s.config.Workers {
		if !slices.ContainsFunc(s.report.Workers, func(w probes.Worker) bool { return w.Name == name }) {
			found = append(found, warn("worker "+name, "is not known to the running service",
				"systemctl reload codex-proxy"))
		}
	}
	for _, w := range s.report.Workers {
		if !slices.Contains(s.config.Workers, w.Name) {
			found = append(found, warn("worker "+w.Name, "is not configured, but the running service has it",
				"systemctl reload codex-proxy"))
		}
	}
	return found
}
