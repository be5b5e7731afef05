package hereexec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/remotes/authz"
	"codex-proxy/remotes/here"
)

const (
	// largestEnvironment bounds the variables of a process, as the kernel bounds them for most programs.
	largestEnvironment = 2 << 20
	// largestPassed bounds those that a thread gets, in bytes.
	largestPassed = 64 << 10
	// policy is codex's setting for the variables of commands.
	policy = "shell_environment_policy"
)

// loading are the requests that load a thread, with settings of its own.
var loading = []string{"thread/start", "thread/resume", "thread/fork"}

// mostThreads bounds the threads with variables that are known.
const mostThreads = 256

// environments adds to requests that load a thread the variables of the process that has sent them.
type environments struct {
	settings *here.Settings
	// of a process; a variable for tests
	read func(pid int) ([]byte, error)

	mu sync.Mutex
	// threads has the variables that the first client of each thread brings: codex keeps them as long as it has the
	// thread.
	threads map[string]map[string]json.RawMessage
	own     map[uint64]bool // clients with a policy of their own
}

// edit is the Edit of the proxy. A client that brings a policy of its own keeps it.
func (e *environments) edit(s authz.Session, r authz.Request) []byte {
	if r.Method == "turn/start" && r.ThreadID != "" { // of a new thread no earlier request has the id
		e.learn(s, r.ThreadID, nil)
	}
	if !slices.Contains(loading, r.Method) || r.ID == "" {
		return nil
	}
	var params, config map[string]json.RawMessage
	if json.Unmarshal(r.Params, &params) != nil || params == nil {
		return nil
	}
	if len(params["config"]) > 0 && json.Unmarshal(params["config"], &config) != nil {
		return nil
	}
	for key := range config {
		if key == policy || strings.HasPrefix(key, policy+".") {
			e.leave(s.ID)
			if r.Method == "thread/resume" && r.ThreadID != "" {
				e.learn(s, r.ThreadID, nil)
			}
			return nil
		}
	}
	variables := e.config(s.Peer.PID)
	if r.Method == "thread/resume" && r.ThreadID != "" {
		e.learn(s, r.ThreadID, variables)
	}
	if len(variables) == 0 {
		return nil
	}
	if config == nil {
		config = map[string]json.RawMessage{}
	}
	maps.Copy(config, variables)
	var err error
	if params["config"], err = json.Marshal(config); err != nil {
		return nil
	}
	edited, err := json.Marshal(params)
	if err != nil {
		return nil
	}
	return edited
}

// learn keeps the settings of the first client of a thread; nil: they are read, unless the client has a policy of its
// own.
func (e *environments) learn(s authz.Session, thread string, config map[string]json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.threads[thread]; known {
		return
	}
	if config == nil && !e.own[s.ID] {
		config = e.config(s.Peer.PID)
	}
	if e.threads == nil || len(e.threads) >= mostThreads { // the journal of turns has those that run
		e.threads = map[string]map[string]json.RawMessage{}
	}
	e.threads[thread] = config
}

// forget is the Unloaded of the manager: the next client of the thread brings its variables.
func (e *environments) forget(thread string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.threads, thread)
}

// leave records that a client has a policy of its own.
func (e *environments) leave(client uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own == nil || len(e.own) >= mostThreads {
		e.own = map[uint64]bool{}
	}
	e.own[client] = true
}

// loaded is the Loaded of the manager.
func (e *environments) loaded(thread string) map[string]json.RawMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.threads[thread]
}

// config has the variables of a process as settings of codex, which leave the other ones of the user's config.toml.
func (e *environments) config(pid int) map[string]json.RawMessage {
	variables := e.of(pid)
	config := make(map[string]json.RawMessage, len(variables))
	for name, value := range variables {
		if text, err := json.Marshal(value); err == nil {
			config[policy+".set."+name] = text
		}
	}
	return config
}

// name is the form of names that codex's dotted keys can have.
var name = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// of returns the variables of a process that pass. A process of another user, or that has ended, has none: its number
// may be another one's by now, of which the kernel lets us read our own user's alone.
func (e *environments) of(pid int) map[string]string {
	text, err := e.read(pid)
	if err != nil {
		return nil
	}
	all, size := map[string]string{}, 0
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		key, value, is := strings.Cut(string(entry), "=")
		if !is || !name.MatchString(key) || !e.settings.Passes(key) || !utf8.ValidString(value) {
			continue
		}
		if size += len(entry); size > largestPassed {
			break
		}
		all[key] = value
	}
	return all
}

func readEnvironment(pid int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, largestEnvironment))
}
