// Package brokercheck checks the brokers of an installation: their units, and whether each reaches its endpoint.
package brokercheck

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"codex-proxy/broker/brokerunit"
	"codex-proxy/broker/modelproxy"
	"codex-proxy/broker/upstream"
	"codex-proxy/internal/checkup"
	"codex-proxy/internal/paths"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/sharing"
)

// Probe asks the broker at a socket whether it reaches its endpoint. The reason is empty if it does.
type Probe func(ctx context.Context, socket string) (upstream.Reason, error)

// room is the brokers, as their check sees them.
type room struct {
	*survey.Facts
	probe Probe
	all   []broker

	made, wanted sharing.Hosts // by the units, and by the settings
	fault        error         // of the settings
}

// broker is the broker that the file of a worker asks for.
type broker struct {
	name   string
	file   *codexhome.Worker
	served []string // accounts of other workers
}

func (b broker) unit() string { return units.Broker(b.name) }

// base is the address of its endpoint: OpenAI's for a login.
func (b broker) base() string {
	if b.file.Provider == nil {
		return modelproxy.Public.ChatGPT
	}
	return b.file.Provider.BaseURL
}

func (b broker) subject() string { return "broker " + b.name }

// New returns the brokers' part of an installation.
func New(f *survey.Facts, probe Probe, workers []string) survey.Room {
	r := &room{Facts: f, probe: probe, made: sharing.Generated(f.Path(survey.Generated), workers)}
	r.wanted, r.fault = sharing.Configured(f.Path(paths.Config), f.Path(paths.WorkerSettings), r.runs)
	out := survey.Room{Checks: []checkup.Check{{Name: "brokers", Stage: checkup.Features, Run: r.brokers}}}
	for name := range r.made {
		out.Units = append(out.Units, survey.Unit{Name: units.Worker(name)})
	}
	for _, name := range workers {
		w, err := codexhome.Load(f.Path(paths.WorkerSettings, name+".toml"))
		if err != nil || !w.Brokered || r.made[name] != "" { // another check reports the fault
			continue
		}
		r.all = append(r.all, broker{name, w, r.made.Served(name)})
		out.Units = append(out.Units, survey.Unit{Name: units.Broker(name)},
			survey.Unit{Name: units.BrokerSocket(name)})
	}
	return out
}

func (r *room) brokers(ctx context.Context) (found []checkup.Finding) {
	findings := make([]checkup.Finding, len(r.all))
	var all sync.WaitGroup
	for i, b := range r.all {
		all.Go(func() { findings[i] = r.judge(ctx, b) })
	}
	all.Wait()
	return checkup.OrPassed(append(findings, r.sharing()...), "none is configured")
}

func (r *room) judge(ctx context.Context, b broker) checkup.Finding {
	worker := units.Worker(b.name)
	state := r.Units[b.unit()]
	switch {
	case r.BusErr != nil:
		return checkup.Unchecked(b.subject(), "systemd does not answer", "bus")
	case r.UnitErrs[b.unit()] != nil:
		return checkup.Failure(b.subject(), "not checked: "+r.UnitErrs[b.unit()].Error(), "systemctl status "+b.unit())
	case !brokerunit.Generated(r.Path(survey.Generated), b.name):
		return checkup.Failure(b.subject(), "its unit is not made yet",
			"systemctl daemon-reload; systemctl restart "+worker)
	case !state.Active() && !r.Running(worker):
		return checkup.Passed(b.subject(), "stopped, as its worker is")
	case !state.Active():
		return checkup.Failure(b.subject(), "does not run",
			"journalctl -u "+b.unit()+" -n 20; systemctl restart "+worker)
	}
	if why, refuses := strings.CutPrefix(state.StatusText, "Refuses all: "); refuses {
		return checkup.Failure(b.subject(), why, "mend "+filepath.Join(paths.WorkerSettings, b.name+".toml")+
			" or the drop-ins of "+worker+", then systemctl restart "+worker)
	}
	if !r.IsRoot {
		return survey.Unprivileged(b.subject(), "ask it")
	}
	return r.ask(ctx, b)
}

func (r *room) ask(ctx context.Context, b broker) checkup.Finding {
	reason, err := r.probe(ctx, filepath.Join(paths.BrokerSockets, b.name+".sock"))
	endpoint := brokerunit.Origin(b.base())
	switch {
	case err != nil:
		return checkup.Failure(b.subject(), "does not answer: "+err.Error(),
			"journalctl -u "+b.unit()+" -n 20; systemctl restart "+b.unit())
	case reason != "":
		words := fmt.Sprintf("cannot reach %s (%s): %s", endpoint, reason, reason.Words())
		return checkup.Failure(b.subject(), words, remedy(b, reason))
	}
	return r.serves(b, "reaches "+endpoint)
}

// remedy is the way to mend a failure.
func remedy(b broker, reason upstream.Reason) string {
	file, host := filepath.Join(paths.WorkerSettings, b.name+".toml"), ""
	if u, err := url.Parse(b.base()); err == nil {
		host = u.Hostname()
	}
	if b.file.Provider == nil && reason != upstream.ViaProxy {
		return "look for a firewall, a resolver or a proxy on the way: curl -I https://" + host + "; IPAddressDeny= of " +
			units.Worker(b.name) + " applies, too"
	}
	switch reason {
	case upstream.Refused:
		return "start the endpoint, or correct provider.base_url in " + file
	case upstream.Unresolvable:
		return "correct provider.base_url in " + file + ", or the resolver of the machine: getent hosts " + host
	case upstream.NoAnswer:
		return "look for a firewall, for IPAddressDeny= of " + units.Worker(b.name) +
			", and at the address in provider.base_url of " + file
	case upstream.Certificate:
		return "set provider.ca_file in " + file +
			" to the authorities of the endpoint; its certificate needs the name " + host
	case upstream.TLS:
		return "correct the scheme and the port of provider.base_url in " + file + "; see journalctl -u " + b.unit()
	case upstream.ViaProxy:
		return "correct HTTPS_PROXY and ALL_PROXY in the drop-ins of " + units.Worker(b.name)
	}
	return "see the journal of the endpoint, and journalctl -u " + b.unit()
}
