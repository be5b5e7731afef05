package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/nearest"
	"codex-proxy/internal/strict"
	"codex-proxy/workers/accounts"
	"codex-proxy/workers/codexhome"
)

// rawAccounts is the table [accounts].
type rawAccounts struct {
	Rotation           string             `toml:"rotation"`
	Order              []string           `toml:"order"`
	Warm               count              `toml:"warm"`
	Processes          count              `toml:"processes"` // for the units, at a daemon-reload: package sharing
	RotateAt           float64            `toml:"rotate_at"`
	PrewarmAt          map[string]float64 `toml:"prewarm_at"`
	IdleStop           duration           `toml:"idle_stop"`
	ReadyWhenExhausted bool               `toml:"ready_when_exhausted"`
}

func defaultAccounts() rawAccounts {
	return rawAccounts{
		Rotation: string(accounts.Off), Order: []string{}, RotateAt: 5,
		PrewarmAt: map[string]float64{"5h": 10, "7d": 5}, IdleStop: duration{10 * time.Minute},
		ReadyWhenExhausted: true,
	}
}

// Bounds of idle_stop: a worker takes seconds to start, and a day is as long as none.
const (
	minIdleStop = time.Second
	maxIdleStop = 24 * time.Hour
)

// policy is the table for these workers. dir has their files.
func (r raw) policy(workers []string, dir string) (accounts.Policy, error) {
	a := r.Accounts
	for _, check := range []func() error{
		a.checkRotation, a.checkThresholds, a.checkIdleStop,
		func() error { return a.checkOrder(workers) },
		func() error { return a.checkWarm(len(workers)) },
		func() error { return a.checkProcesses(len(workers)) },
		func() error { return a.checkLogins(workers, dir) },
	} {
		if err := check(); err != nil {
			return accounts.Policy{}, err
		}
	}
	p := accounts.Policy{
		Rotation: accounts.Rotation(a.Rotation), Order: a.whole(workers), Warm: a.Warm.n, RotateAt: a.RotateAt / 100,
		PrewarmAt: map[string]float64{}, IdleStop: a.IdleStop.Duration, ReadyWhenExhausted: a.ReadyWhenExhausted,
	}
	for window, percent := range a.PrewarmAt {
		p.PrewarmAt[window] = percent / 100
	}
	return p, nil
}

// whole is the order of all workers: workers that the file does not name are last.
func (a rawAccounts) whole(workers []string) []string {
	order := slices.Clone(a.Order)
	for _, name := range workers {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

func (a rawAccounts) checkRotation() error {
	known := []string{string(accounts.Off), string(accounts.Ordered), string(accounts.Even)}
	if !slices.Contains(known, a.Rotation) {
		return fault("rotation", "accounts.rotation = %q: must be one of %s", a.Rotation, strings.Join(known, ", "))
	}
	return nil
}

func (a rawAccounts) checkOrder(workers []string) error {
	for i, name := range a.Order {
		switch {
		case slices.Contains(a.Order[:i], name):
			return fault("order", "accounts.order: %q stands there twice; remove one of them", name)
		case slices.Contains(workers, name):
		case len(nearest.To(name, workers, 1)) > 0:
			return fault("order", "accounts.order: there is no account %q; did you mean %q? An account has the name "+
				"of its worker", name, nearest.To(name, workers, 1)[0])
		default:
			return fault("order", "accounts.order: there is no account %q: an account has the name of its worker; "+
				"there are %s", name, strings.Join(workers, ", "))
		}
	}
	return nil
}

func (a rawAccounts) checkWarm(workers int) error {
	if a.Warm.given && (a.Warm.n < 1 || a.Warm.n > workers) {
		return fault("warm", "accounts.warm = %d: must be between 1 and the number of workers, which is %d, or \"all\"",
			a.Warm.n, workers)
	}
	return nil
}

// checkProcesses leaves the files of workers to the check `brokers` of doctor: a fault in one of them would stop all.
func (a rawAccounts) checkProcesses(workers int) error {
	switch {
	case !a.Processes.given:
		return nil
	case a.Processes.n < 1 || a.Processes.n > workers:
		return fault("processes", "accounts.processes = %d: must be between 1 and the number of workers, "+
			"which is %d, or \"all\"", a.Processes.n, workers)
	case a.Warm.given:
		return fault("processes", "accounts.processes = %d: a codex that serves several accounts is never on "+
			"standby; set warm = \"all\", or processes = \"all\"", a.Processes.n)
	}
	return nil
}

// windowForm is a length as codex-proxy accounts list shows it.
var windowForm = lazyregexp.New(`^([1-9][0-9]{0,4})([mhd])$`)

func (a rawAccounts) checkThresholds() error {
	if !percent(a.RotateAt) {
		return fault("rotate_at", "accounts.rotate_at = %v: must be between 0 and 100, the percent of a window that "+
			"is left", a.RotateAt)
	}
	for _, window := range slices.Sorted(maps.Keys(a.PrewarmAt)) {
		key, at := "prewarm_at."+window, a.PrewarmAt[window]
		switch {
		case canonical(window) == "":
			return fault(key, "accounts.prewarm_at: %q is not the length of a window such as \"5h\", \"7d\" or \"90m\"",
				window)
		case canonical(window) != window:
			return fault(key, "accounts.prewarm_at: the window %q has the name %q; write that", window,
				canonical(window))
		case !percent(at):
			return fault(key, "accounts.prewarm_at: %q = %v: must be between 0 and 100, the percent that is left",
				window, at)
		case at < a.RotateAt:
			return fault(key, "accounts.prewarm_at: %q = %v is below rotate_at = %v, so the next worker would start "+
				"after the rotation; set it to %[3]v or more, or rotate_at to %[2]v or less", window, at, a.RotateAt)
		}
	}
	return nil
}

func percent(n float64) bool { return n >= 0 && n <= 100 } // NaN is neither

// canonical is the name that a window of this length has; empty if it is no length.
func canonical(window string) string {
	m := windowForm.FindStringSubmatch(window)
	if m == nil {
		return ""
	}
	n, _ := strconv.Atoi(m[1]) // five digits
	switch unit := m[2]; {
	case unit == "m" && n%60 == 0:
		return canonical(fmt.Sprintf("%dh", n/60))
	case unit == "h" && n%24 == 0:
		return fmt.Sprintf("%dd", n/24)
	}
	return window
}

func (a rawAccounts) checkIdleStop() error {
	if d := a.IdleStop.Duration; d < minIdleStop || d > maxIdleStop {
		return fault("idle_stop", "accounts.idle_stop = %q: must be between %s and %s", d, minIdleStop, maxIdleStop)
	}
	return nil
}

// checkLogins refuses a rotation for which no worker has an account: a demo worker has
// none, and a provider is no account. A file that cannot be read may be of an account.
func (a rawAccounts) checkLogins(workers []string, dir string) error {
	if a.Rotation == string(accounts.Off) || slices.ContainsFunc(workers, func(name string) bool {
		w, err := codexhome.Load(filepath.Join(dir, name+".toml"))
		return err != nil || w.Mode != codexhome.Demo && w.Provider == nil
	}) {
		return nil
	}
	return fault("rotation", "accounts.rotation = %q: no worker has an account: each is a demo worker or has a "+
		"[provider]; add one with `codex-proxy accounts add NAME`, or set rotation = \"off\"", a.Rotation)
}

// misfit is a value that does not fit.
type misfit struct {
	key  string // with its table
	text string
}

func (m *misfit) Error() string { return m.text }

func fault(key, format string, args ...any) error {
	return &misfit{"accounts." + key, fmt.Sprintf(format, args...)}
}

// place is where the value of the misfit stands: FILE:LINE, the option that overrides it,
// or the file for a default. A threshold may clash with the default of another one.
func (m *misfit) place(path string, lines strict.Lines, set []string) string {
	keys := []string{m.key}
	if strings.HasPrefix(m.key, "accounts.prewarm_at") {
		keys = append(keys, "accounts.prewarm_at", "accounts.rotate_at")
	}
	for _, key := range keys {
		for _, s := range slices.Backward(set) {
			if given, _, _ := strings.Cut(s, "="); strings.TrimSpace(given) == key {
				return "--set " + key
			}
		}
		if lines.Has(key) {
			line, _ := lines.Find(key)
			return fmt.Sprintf("%s:%d", path, line)
		}
	}
	return path
}
