package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/probes"
)

// checkPorts checks that the addresses of the API belong to the service and answer. It
// sends no request while the service is down: that would start it.
func (s *service) checkPorts(ctx context.Context) []checkup.Finding {
	if s.BusErr != nil {
		return checkup.Unchecked("", "systemd does not answer with the addresses", "bus").Alone()
	}
	d := s.Units[paths.SocketUnit]
	if len(d.Listen) == 0 {
		return checkup.Unchecked("", paths.SocketUnit+" has none", "units").Alone()
	}
	var found []checkup.Finding
	for _, address := range d.Listen {
		found = append(found, s.port(ctx, address, d.Active()))
	}
	return found
}

func (s *service) port(ctx context.Context, address string, open bool) checkup.Finding {
	host, port, err := net.SplitHostPort(address)
	if err != nil { // a unix socket, as for a reverse proxy
		if !open {
			return checkup.Unchecked(address, "nothing listens there", "units")
		}
		return checkup.Passed(address, paths.SocketUnit+" listens")
	}
	switch {
	case !open:
		return s.closedPort(address, host, port)
	case !s.Running(paths.ServiceUnit):
		return checkup.Unchecked(address, "the service does not run", "units")
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return s.openPort(ctx, address, "http://"+net.JoinHostPort(host, port))
}

// closedPort names the process that has the port, if there is one.
func (s *service) closedPort(address, host, port string) checkup.Finding {
	if holder, taken := s.listener(host, port); taken {
		return checkup.Failure(address, "is taken by "+holder, "stop that, or choose another address: systemctl edit "+
			"codex-proxy.socket; then systemctl start codex.target")
	}
	return checkup.Unchecked(address, "nothing listens there", "units")
}

func (s *service) openPort(ctx context.Context, address, url string) checkup.Finding {
	status, body, err := s.get(ctx, url+"/livez")
	if err != nil {
		return checkup.Failure(address, "does not answer: "+err.Error(),
			"systemctl status codex-proxy.socket codex-proxy.service; look for a firewall")
	}
	var r probes.Report
	if json.Unmarshal(body, &r) != nil || r.Health.Liveness.Reason == "" {
		return checkup.Failure(address, fmt.Sprintf("is answered by something else (status %d)", status),
			"ss -ltnp shows who; stop that, or choose another address: systemctl edit codex-proxy.socket")
	}
	if !r.Health.Liveness.Live {
		return checkup.Failure(address, fmt.Sprintf("answers that the service is not live (%s)",
			r.Health.Liveness.Reason), "journalctl -u codex-proxy -n 20")
	}
	return s.guarded(ctx, address, url)
}

// guarded checks that the API requires a key exactly if there are keys, or were any.
func (s *service) guarded(ctx context.Context, address, url string) checkup.Finding {
	keys, err := s.keys()
	if err != nil {
		return checkup.Unchecked(address, "the API keys are not known", "config")
	}
	status, _, err := s.get(ctx, url+"/v1/models")
	apply := s.applyKeys()
	switch {
	case err != nil:
		return checkup.Failure(address, "does not answer: "+err.Error(), "journalctl -u codex-proxy -n 20")
	case !keys.Empty() && status != http.StatusUnauthorized:
		return checkup.Failure(address, fmt.Sprintf("answers a request without an API key (status %d)", status), apply)
	case keys.Empty() && keys.Closed() && status == http.StatusUnauthorized:
		return checkup.Passed(address, "answers, and refuses every request, as there is no API key")
	case keys.Empty() && keys.Closed():
		return checkup.Failure(address, fmt.Sprintf("answers a request without an API key (status %d)", status), apply)
	case keys.Empty() && status == http.StatusUnauthorized:
		return checkup.Warning(address, "asks for API keys that are not in "+s.keyFile(), apply)
	case !keys.Empty():
		return checkup.Passed(address, "answers, and asks for an API key")
	}
	return checkup.Passed(address, "answers, and asks for no API key")
}
