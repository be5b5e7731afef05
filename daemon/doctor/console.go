package doctor

import (
	"net"
	"net/url"
	"slices"

	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units/survey"
	"codex-proxy/workers/control"
)

// checkConsole checks that the page for other machines, once it is on, has addresses, and keys that open it.
func checkConsole(s *service) []checkup.Finding {
	d, err := s.Units[paths.ConsoleUnit], s.UnitErrs[paths.ConsoleUnit]
	switch {
	case s.BusErr != nil:
		return checkup.Unchecked("", "systemd does not answer", "bus").Alone()
	case err != nil:
		return checkup.Warning("", "not checked: "+err.Error(), "systemctl status "+paths.ConsoleUnit).Alone()
	case !d.Active() && d.FileState != "enabled":
		return checkup.Passed("", "the page for other machines is off").Alone()
	case !d.Active():
		return checkup.Failure(paths.ConsoleUnit, "is enabled and does not listen"+survey.Why(d),
			"systemctl start "+paths.ConsoleUnit).Alone()
	case s.config == nil:
		return checkup.Unchecked("", "config.toml is bad", "config").Alone()
	case len(s.config.Console.Origins) == 0:
		return checkup.Failure(paths.ConsoleUnit, "[console] of config.toml names no origins: the page has no address",
			"add origins there, such as [\"https://codex.example.com\"]; then "+
				"systemctl restart codex-console.service").Alone()
	}
	var found []checkup.Finding
	for _, origin := range s.config.Console.Origins {
		if u, err := url.Parse(origin); err == nil && u.Scheme == "http" && !net.ParseIP(u.Hostname()).IsLoopback() {
			found = append(found, checkup.Warning(origin, "keys and threads go over the network without TLS",
				"put a reverse proxy with TLS in front (docs/console.md), unless the network is encrypted itself"))
		}
	}
	opens := func(k control.Key) bool { return k.Limits.Console != "" }
	if s.ReportErr == nil && !slices.ContainsFunc(s.inForce.Keys, opens) {
		found = append(found, checkup.Warning(paths.ConsoleUnit, "no API key has a right to the page",
			"codex-proxy keys add NAME --console=read, or --console=operate"))
	}
	if len(found) > 0 {
		return found
	}
	return checkup.Passed(paths.ConsoleUnit, "the page has an address, and a key that opens it").Alone()
}
