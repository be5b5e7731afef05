package operators

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"codex-proxy/daemon/apikeys"
	"codex-proxy/daemon/config"
	"codex-proxy/daemon/reload"
	"codex-proxy/internal/paths"
	"codex-proxy/notify/handoff"
	"codex-proxy/proxy/auth"
	"codex-proxy/workers/control"
)

// KeyState is the state that a successor needs of the keys before it could serve.
type KeyState struct {
	// Keys is the key file in force, if it is not the one of the start: systemd reads
	// credentials once, when the service starts, and not when it is reloaded
	// (LoadCredential=, systemd.exec(5)).
	Keys *string `json:"keys,omitempty"`
	// KeyFile is the path of that file.
	KeyFile string `json:"key_file,omitempty"`
	// Shared is set if a database has the keys.
	Shared bool `json:"shared_keys,omitempty"`
}

// of returns the text of the keys from file; nil if the state has none.
func (s KeyState) of(file string) *string {
	if s.KeyFile != "" && s.KeyFile != file { // another version may send no path
		return nil
	}
	return s.Keys
}

// KeyTable is how the API keys change while the service runs. It is the control.KeyTable.
type KeyTable struct {
	keys        *auth.Keys
	used        func(auth.Key) (used, refused map[string]int64)
	accounts    []string // the names of the workers
	named       string   // api_keys in the settings; empty: the credential of the unit
	lock        *reload.ChangeLock
	predecessor *reload.Predecessor
	revised     func() // closes the links that the keys do not allow any more
	logger      *slog.Logger

	mu      sync.Mutex // one change at a time; it guards changed
	changed bool       // since the start of the service
}

// keyFileOf returns the file of the keys: the unit's credential, if none is named.
func keyFileOf(named string) string { return filepath.Clean(cmp.Or(named, paths.KeyFile)) }

// InForce implements control.KeyTable.
func (t *KeyTable) InForce() control.Keys {
	keys := t.published()
	keys.Digest = t.keys.Digest()
	return keys
}

// published is the keys in force for readers of the stream: without the digest of their hashes.
func (t *KeyTable) published() control.Keys {
	return control.Keys{
		Count: len(t.keys.All()), File: keyFileOf(t.named),
		Closed: t.keys.Empty() && !t.keys.Open(), Required: t.keys.Required(), Keys: t.list(),
	}
}

// list is the keys in force, with their use.
func (t *KeyTable) list() []control.Key {
	list := apikeys.Rows(t.keys)
	for i, key := range t.keys.All() {
		if i >= len(list) || list[i].Name != key.Name || t.used == nil {
			break // the keys have just changed, and all readers get them once more
		}
		used, refused := t.used(key)
		list[i].Used = &control.KeyUse{
			RequestsPerMinute: used[auth.RequestsPerMinute], TokensPerMinute: used[auth.TokensPerMinute],
			TokensPerDay: used[auth.TokensPerDay], Concurrent: used[auth.Concurrent], Refused: refused,
		}
	}
	return list
}

// Replace implements control.KeyTable: the key file is in force when it returns, in
// predecessors, too, except in one that hangs.
func (t *KeyTable) Replace(path, text string) (keys control.Keys, err error) {
	err = t.lock.Change(func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if path != "" && path != keyFileOf(t.named) {
			return control.ErrOtherFile
		}
		if err := t.keys.Replace(text); err != nil {
			return err
		}
		t.changed = true
		t.revised()
		t.predecessor.Pass(handoff.Keys, text)
		keys = t.InForce()
		t.logger.Info("API keys changed", "keys", keys.Count)
		t.LogUnusable()
		return nil
	})
	return keys, err
}

// Follow puts the key file of the successor into force.
func (t *KeyTable) Follow(raw json.RawMessage) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil || t.take(text) != nil {
		t.logger.Warn("cannot take over the API keys of the process that serves now")
		return
	}
	t.revised()
	t.predecessor.Pass(handoff.Keys, text)
}

// LogUnusable logs the access while there is no key, and each key without any of its accounts:
// every request with it fails.
func (t *KeyTable) LogUnusable() {
	for _, key := range t.keys.All() {
		there := func(name string) bool { return slices.Contains(t.accounts, name) }
		if own := key.Limits.Accounts; len(own) > 0 && !slices.ContainsFunc(own, there) {
			t.logger.Warn("an API key may use no account that exists",
				"key", key.Name, "accounts", strings.Join(own, ","))
		}
	}
	if !t.keys.Empty() {
		return
	}
	access := "closed"
	if t.keys.Open() {
		access = "open"
	}
	t.logger.Info("there is no API key", "access", access)
}

// State returns the state for a successor.
func (t *KeyTable) State() KeyState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := KeyState{Shared: t.keys.Shared()}
	if t.changed || s.Shared { // the cache of a database may be gone
		s.Keys, s.KeyFile = new(t.keys.Text()), keyFileOf(t.named)
	}
	return s
}

// Restore takes over the keys of a predecessor. A key file is never older: `codex-proxy
// keys` writes it before it sends the keys to the service.
func (t *KeyTable) Restore(s KeyState) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.named != "" {
		text, err := os.ReadFile(t.named) // it may have changed since the start of this process
		if err == nil && t.take(string(text)) == nil {
			return nil
		}
	}
	text := s.of(keyFileOf(t.named))
	if t.keys.Shared() && !s.Shared { // the database has never answered: the keys of the file hold until then
		text = s.Keys
	}
	if text == nil {
		return nil
	}
	if err := t.take(*text); err != nil {
		return fmt.Errorf("cannot take over the API keys: %w", err)
	}
	t.changed = true
	return nil
}

// take puts the text of a key file into force. Another version may know other limits of keys of a database.
func (t *KeyTable) take(text string) error {
	if t.keys.Shared() {
		text, _ = auth.Usable(text)
	}
	return t.keys.Replace(text)
}

// errNeedsRestart keeps an older key file out of force: after a database, the one of the start may have revoked keys, or
// none.
var errNeedsRestart = errors.New("config.toml has no [database] any more, and systemd reads " + paths.KeyFile +
	" at a start alone; systemctl restart codex-proxy")

// checkFile is an error if a process may not go on with the credential of the unit, as file is empty.
func checkFile(predecessor KeyState, file string) error {
	if predecessor.Shared && file == "" {
		return errNeedsRestart
	}
	return nil
}

// CheckPages keeps pages away from a service without keys. A credential may be older than
// the keys in force, which a predecessor has.
func CheckPages(cfg *config.Config, predecessor *handoff.Predecessor) error {
	var s KeyState
	known, err := predecessor.State(&s)
	if err != nil {
		return err
	}
	if err := checkFile(s, cfg.KeyFile); err != nil {
		return err
	}
	keys, text := cfg.Keys, s.of(keyFileOf(cfg.KeyFile))
	switch {
	case cfg.KeyFile != "": // config.Load has just read it
	case predecessor != nil && !known: // proxy.Server keeps pages away, too
		return nil
	case text != nil:
		if keys, err = auth.Parse(strings.NewReader(*text)); err != nil {
			return err
		}
	}
	return cfg.Pages.Check(keys)
}
