package daemon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"codex-proxy/cmd/internal/config"
	"codex-proxy/cmd/internal/paths"
	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/control"
	"codex-proxy/proxy/limits"
	"codex-proxy/proxy/workers"
)

// memory is what a process leaves to its successor.
type memory struct {
	Workers workers.Saved `json:"workers"`
	keyMemory
	// Textfile is the one that is written, which other settings may not name any more.
	Textfile string `json:"textfile,omitempty"`
	// Handoffs and FailedHandoffs are how many reloads there were.
	Handoffs       uint64 `json:"handoffs"`
	FailedHandoffs uint64 `json:"failed_handoffs"`
	// HandoffBegan is when this one was asked for.
	HandoffBegan time.Time `json:"handoff_began,omitzero"`
	// Load is what this process and those before it have in flight.
	Load *inflight `json:"load,omitempty"`
	// KeyLevels are how much of their limits per minute the keys have used up.
	KeyLevels map[string]limits.KeyLevel `json:"key_levels,omitempty"`
}

// maxMemory leaves room for the rest of the packet that takes a memory over.
const maxMemory = 120 << 10

// keyMemory is of memory what a successor must know before it could serve.
type keyMemory struct {
	// Keys is the key file in force, if it is not the one of the start:
	// systemd takes credentials once, when the service starts, and not when it is
	// reloaded (LoadCredential=, systemd.exec(5)).
	Keys *string `json:"keys,omitempty"`
	// KeyFile is where they are from.
	KeyFile string `json:"key_file,omitempty"`
}

// from is what is remembered of the keys that are from file; nil: nothing is.
func (m keyMemory) from(file string) *string {
	if m.KeyFile != "" && m.KeyFile != file { // another version may not say it
		return nil
	}
	return m.Keys
}

// keyTable is how the API keys change while the service runs. It is the
// control.KeyTable.
type keyTable struct {
	daemon *Daemon

	mu      sync.Mutex
	changed bool // since the start of the service
	moved   bool // to a successor
}

// InForce implements control.KeyTable.
func (t *keyTable) InForce() control.Keys {
	keys := t.daemon.cfg.Keys
	return control.Keys{
		Count: len(keys.All()), File: t.file(), Digest: keys.Digest(),
		Closed: keys.Empty() && !keys.Open(), Required: keys.Required(),
	}
}

func (t *keyTable) file() string { return keyFileOf(t.daemon.cfg) }

// keyFileOf is the file of the keys: the unit's credential, if none is named.
func keyFileOf(cfg *config.Config) string {
	return filepath.Clean(cmp.Or(cfg.KeyFile, paths.KeyFile))
}

// memory is what a successor receives of the keys.
func (t *keyTable) memory() keyMemory {
	if !t.changed {
		return keyMemory{}
	}
	return keyMemory{Keys: new(t.daemon.cfg.Keys.Text()), KeyFile: t.file()}
}

// memoryNow is memory for a process that does not hold the lock.
func (t *keyTable) memoryNow() keyMemory {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.memory()
}

// CheckPages keeps pages away from a service without keys. A credential may be older
// than the keys in force, which a predecessor knows.
func CheckPages(cfg *config.Config, predecessor *handoff.Predecessor) error {
	var m keyMemory
	known, err := predecessor.State(&m)
	if err != nil {
		return err
	}
	keys, file := cfg.Keys, m.from(keyFileOf(cfg))
	switch {
	case cfg.KeyFile != "": // it was read just now
	case predecessor != nil && !known: // proxy.Server keeps pages away, too
		return nil
	case file != nil:
		if keys, err = auth.Parse(strings.NewReader(*file)); err != nil {
			return err
		}
	}
	return cfg.Pages.Check(keys)
}

// Replace implements control.KeyTable: the key file is in force when it returns,
// in processes that still finish their work, too, but for one that hangs.
func (t *keyTable) Replace(path, file string) (control.Keys, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.moved {
		return control.Keys{}, control.ErrMoved
	}
	if path != "" && path != t.file() {
		return control.Keys{}, control.ErrOtherFile
	}
	d := t.daemon
	if err := d.cfg.Keys.Replace(file); err != nil {
		return control.Keys{}, err
	}
	t.changed = true
	d.handoff.passNews(handoff.Keys, file)
	keys := t.InForce()
	d.logger.Info("API keys changed", "keys", keys.Count)
	d.logKeyless()
	return keys, nil
}

// logKeyless logs what holds while there is no key.
func (d *Daemon) logKeyless() {
	if keys := d.cfg.Keys; keys.Empty() {
		access := "closed"
		if keys.Open() {
			access = "open"
		}
		d.logger.Info("there is no API key", "access", access)
	}
}

// heardKeys is for a process that has been replaced.
func (d *Daemon) heardKeys(raw json.RawMessage) {
	var file string
	if err := json.Unmarshal(raw, &file); err != nil || d.cfg.Keys.Replace(file) != nil {
		d.logger.Warn("cannot take over the API keys of the process that serves now")
		return
	}
	d.handoff.passNews(handoff.Keys, file)
}

// remembered is what the successor gets. The lock is to be held until it serves,
// so that no change gets lost between the two.
func (d *Daemon) remembered() memory {
	m := memory{
		Workers: d.pool.Save(), Textfile: d.cfg.Textfile,
		Handoffs: d.metrics.handoffs.done.Load() + 1, FailedHandoffs: d.metrics.handoffs.failed.Load(), // the one to come is counted by who takes over
		HandoffBegan: d.handoff.began, keyMemory: d.keyTable.memory(),
	}
	load := d.forSuccessor()
	m.Load, m.KeyLevels = &load, d.server.Limiter.KeyLevels()
	if raw, err := json.Marshal(m); err == nil && len(raw) > maxMemory {
		m.KeyLevels = nil // of many hundred keys: they begin anew, and the reload succeeds
	}
	return m
}

// recall takes over what a predecessor remembered.
func (d *Daemon) recall(m memory) error {
	d.pool.Restore(m.Workers)
	d.recallInflight(m)
	d.handoff.wrote = m.Textfile
	d.metrics.handoffs.done.Store(m.Handoffs)
	d.metrics.handoffs.failed.Store(m.FailedHandoffs)
	if !m.HandoffBegan.IsZero() { // another version may not say it
		d.metrics.took.Set(max(0, time.Since(m.HandoffBegan).Seconds()))
	}
	d.keyTable.mu.Lock()
	defer d.keyTable.mu.Unlock()
	if d.cfg.KeyFile != "" {
		// It may have changed since we started. `codex-proxy keys` writes it before
		// it tells anybody, so that no key file is newer.
		text, err := os.ReadFile(d.cfg.KeyFile)
		if err == nil && d.cfg.Keys.Replace(string(text)) == nil {
			return nil
		}
	}
	file := m.from(d.keyTable.file())
	if file == nil {
		return nil
	}
	if err := d.cfg.Keys.Replace(*file); err != nil {
		return fmt.Errorf("cannot take over the API keys: %w", err)
	}
	d.keyTable.changed = true
	return nil
}

// exposed reports whether others than this machine can reach a listener.
func exposed(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && !a.IP.IsLoopback()
}
