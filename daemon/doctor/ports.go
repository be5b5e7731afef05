package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"codex-proxy/probes"
)

// checkPorts checks that the addresses of the API belong to the service and answer. It
// sends no request while the service is down: that would start it.
func checkPorts(ctx context.Context, s *survey) []Finding {
	if s.busErr != nil {
		return []Finding{unchecked("", "systemd does not answer with the addresses", "bus")}
	}
	d := s.units[socketUnit]
	if len(d.Listen) == 0 {
		return []Finding{unchecked("", socketUnit+" has none", "units")}
	}
	var found []Finding
	for _, address := range d.Listen {
		found = append(found, s.port(ctx, address, d.Active()))
	}
	return found
}

func (s *survey) port(ctx context.Context, address string, open bool) Finding {
	host, port, err := net.SplitHostPort(address)
	if err != nil { // a unix socket, as for a reverse proxy
		if !open {
			return unchecked(address, "nothing listens there", "units")
		}
		return ok(address, socketUnit+" listens")
	}
	switch {
	case !open:
		return s.closedPort(address, host, port)
	case !s.running(proxyUnit):
		return unchecked(address, "the service does not run", "units")
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	return s.openPort(ctx, address, "http://"+net.JoinHostPort(host, port))
}

// closedPort names the process that has the port, if there is one.
func (s *survey) closedPort(address, host, port string) Finding {
	if holder, taken := s.listener(host, port); taken {
		return fail(address, "is taken by "+holder, "stop that, or choose another address: systemctl edit "+
			"codex-proxy.socket; then systemctl start codex.target")
	}
	return unchecked(address, "nothing listens there", "units")
}

func (s *survey) openPort(ctx context.Context, address, url string) Finding {
	status, body, err := s.Get(ctx, url+"/livez")
	if err != nil {
		return fail(address, "does not answer: "+err.Error(),
			"systemctl status codex-proxy.socket codex-proxy.service; look for a firewall")
	}
	var r probes.Report
	if json.Unmarshal(body, &r) != nil || r.Health.Liveness.Reason == "" {
		return fail(address, fmt.Sprintf("is answered by something else (status %d)", status),
			"ss -ltnp shows who; stop that, or choose another address: systemctl edit codex-proxy.socket")
	}
	if !r.Health.Liveness.Live {
		return fail(address, fmt.Sprintf("answers that the service is not live (%s)", r.Health.Liveness.Reason),
			"journalctl -u codex-proxy -n 20")
	}
	return s.guarded(ctx, address, url)
}

// guarded checks that the API requires a key exactly if there are keys, or were any.
func (s *survey) guarded(ctx context.Context, address, url string) Finding {
	keys, err := s.keys()
	if err != nil {
		return unchecked(address, "the API keys are not known", "config")
	}
	status, _, err := s.Get(ctx, url+"/v1/models")
	apply := s.applyKeys()
	switch {
	case err != nil:
		return fail(address, "does not answer: "+err.Error(), "journalctl -u codex-proxy -n 20")
	case !keys.Empty() && status != http.StatusUnauthorized:
		return fail(address, fmt.Sprintf("answers a request without an API key (status %d)", status), apply)
	case keys.Empty() && keys.Closed() && status == http.StatusUnauthorized:
		return ok(address, "answers, and refuses every request, as there is no API key")
	case keys.Empty() && keys.Closed():
		return fail(address, fmt.Sprintf("answers a request without an API key (status %d)", status), apply)
	case keys.Empty() && status == http.StatusUnauthorized:
		return warn(address, "asks for API keys that are not in "+s.keyFile(), apply)
	case !keys.Empty():
		return ok(address, "answers, and asks for an API key")
	}
	return ok(address, "answers, and asks for no API key")
}
