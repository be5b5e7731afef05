// Package thishost is the machine on which the program runs, as doctor examines it.
package thishost

import (
	"context"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/broker/brokercheck"
	"codex-proxy/codex/appserver"
	"codex-proxy/codex/copies"
	"codex-proxy/codex/handshake"
	"codex-proxy/codex/probe"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/doctor"
	"codex-proxy/dependencies/dependenciescheck"
	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/probes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remotescheck"
	"codex-proxy/units"
	"codex-proxy/units/survey"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexcli"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/control"
	"codex-proxy/workers/workerscheck"
)

// New returns this machine as doctor.Examine sees it. version is the version of the program,
// for handshakes.
func New(version string) doctor.Host {
	h := host{version}
	return doctor.Host{
		Machine: survey.Machine{Root: "/", IsRoot: os.Geteuid() == 0, Systemd: units.NewManager(),
			Account: reach.Lookup,
			Clock:   clock},
		Workers:      workerscheck.Host{Codex: codexOf, Copies: copiesHere, Command: h.runInWorker, Accounts: askAccounts},
		Dependencies: dependenciescheck.Host{Probe: h.probe, Faults: dependenciescheck.Faults},
		RemoteFaults: remotescheck.Faults, Broker: brokercheck.Ask, Here: remoteapi.AskStatus,
		Control: paths.ControlSocket, Status: askStatus, Keys: askKeys, Get: get, Free: free,
	}
}

func copiesHere() copies.Report {
	places, _ := config.LoadPlaces(config.DefaultPath) // a fault: another check reports it
	r := codexcli.Here(places.Codex).Report()
	if c, ok := r.Current(); ok && r.Fault == nil {
		r.Fault = c.Check()
	}
	return r
}

func askKeys(ctx context.Context, socket string) (control.Keys, error) {
	return control.NewClient(socket).Keys(ctx)
}

func askAccounts(ctx context.Context, socket string) ([]accounts.Account, error) {
	known, err := control.NewClient(socket).Accounts(ctx)
	var all []accounts.Account
	for _, account := range known.Accounts {
		all = append(all, account.Account)
	}
	return all, err
}

func askStatus(ctx context.Context, socket string) (probes.Report, error) {
	report, _, err := control.NewClient(socket).Status(ctx)
	return report, err
}

// get requests url without any HTTP proxy of the environment.
func get(ctx context.Context, url string) (status int, body []byte, err error) {
	const limit, longest = 4 << 20, 5 * time.Second
	client := http.Client{Timeout: longest, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, limit))
	return res.StatusCode, body, err
}

func codexOf(unit string, w *codexhome.Worker, env []string, as reach.Account) (workerscheck.Codex, error) {
	c, _, err := copies.Open().Chosen(unit)
	if err != nil {
		return nil, err
	}
	return w.Program(c.Program, env, codexhome.Account{UID: as.UID, GID: as.GID})
}

// host is this machine.
type host struct{ version string }

// runInWorker is bounded by 5 s, of which the command has 4.
func (h host) runInWorker(ctx context.Context, socket string, command []string) (r appserver.CommandResult, err error) {
	const longest, ofCommand = 5 * time.Second, 4 * time.Second
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	_, err = handshake.With(ctx, socket, h.version, func(conn *appserver.Conn) error {
		r, err = conn.RunCommand(ctx, command, ofCommand)
		return err
	})
	return r, err
}

// probe runs the probe of a dependency as root: on this machine's network, outside of the unit's sandbox.
func (h host) probe(ctx context.Context, p dependencyconfig.Probe) (detail string, err error) {
	checks, err := probe.Parse(p.Check, probe.Options{Version: h.version, Statuses: p.Status, Body: p.Body, CA: p.CA})
	if err != nil {
		return "", err
	}
	return checks.Alive(ctx)
}

func free(dir string) (uint64, error) {
	var fs unix.Statfs_t
	err := unix.Statfs(dir, &fs)
	return fs.Bavail * uint64(fs.Bsize), err
}

// clock reads the kernel's clock, which records whether a program keeps it right.
func clock() (survey.Clock, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return survey.Clock{Now: time.Now(), Synced: state != unix.TIME_ERROR}, err
}
