package hereexec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

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

// environments adds to requests that load a thread the variables of the process that has sent them.
type environments struct {
	settings *here.Settings
	// of a process; a variable for tests
	read func(pid int) ([]byte, error)
}

// edit is the Edit of the proxy. A client that brings a policy of its own keeps it.
func (e environments) edit(s authz.Session, r authz.Request) []byte {
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
			return nil
		}
	}
	variables := e.of(s.Peer.PID)
	if len(variables) == 0 {
		return nil
	}
	if config == nil {
		config = map[string]json.RawMessage{}
	}
	for name, value := range variables {
		text, err := json.Marshal(value)
		if err != nil {
			return nil
		}
		config[policy+".set."+name] = text // which leaves the others of the user's config.toml
	}
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

// name is the form of names that codex's dotted keys can have.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// of returns the variables of a process that pass. A process of another user, or that has ended, has none: its number
// may be another one's by now, of which the kernel lets us read our own user's alone.
func (e environments) of(pid int) map[string]string {
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
