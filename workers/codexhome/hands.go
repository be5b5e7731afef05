package codexhome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/internal/handstable"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/internal/strict"
)

// Hands is the table [hands] of a worker: codex executes the commands of each conversation in a session of codex-runner
// of its own.
type Hands struct {
	handstable.Hands

	Sessions    int           // the most at the same time
	KeySessions int           // the most of one API key
	Idle        time.Duration // without a turn, after which a session is closed
}

// The defaults and bounds of the keys that remotes do not have.
const (
	defaultSessions, mostSessions = 8, 64
	defaultIdle, longestIdle      = time.Hour, 30 * 24 * time.Hour
)

type rawHands struct {
	handstable.Raw

	Sessions    int                   `toml:"sessions"`
	KeySessions int                   `toml:"key_sessions"`
	Idle        settingsfile.Duration `toml:"idle"`
}

// setHands sets the table [hands].
func setHands(w *Worker, r *rawHands) error {
	if r == nil {
		return nil
	}
	if err := r.check(w); err != nil {
		return located(err, w.File, w.lines)
	}
	w.Hands = &Hands{Hands: *r.Hands(), Sessions: r.Sessions, KeySessions: r.KeySessions, Idle: r.Idle.Duration}
	if w.Hands.Sessions == 0 {
		w.Hands.Sessions = defaultSessions
	}
	if w.Hands.KeySessions == 0 {
		w.Hands.KeySessions = w.Hands.Sessions
	}
	if w.Hands.Idle == 0 {
		w.Hands.Idle = defaultIdle
	}
	return nil
}

// check refuses mistakes in the table, and keys of the file that a worker with hands does not have.
func (r *rawHands) check(w *Worker) error {
	switch {
	case r.URL != "" || r.Token != "" || r.CAFile != "":
		return settingsfile.Wrong("hands.url", "an exec-server elsewhere has one workspace, and each conversation of "+
			"the API needs its own: remove url, token_file and ca_file, and set runner = true")
	case !r.Runner:
		return settingsfile.Wrong("hands.runner",
			"is missing: set runner = true, which has codex-runner execute the commands")
	case w.Mode != Native:
		return settingsfile.Wrong("mode", "a worker without tools has no use for [hands]: set mode = \"native\"")
	case !w.Brokered:
		return settingsfile.Wrong("network", `codex reaches the model and its [hands] alone: set network = "model"`)
	case w.Workspace != "":
		return settingsfile.Wrong("workspace", "commands work in the checkout of hands.repo: remove workspace")
	case r.Sessions < 0 || r.Sessions > mostSessions:
		return settingsfile.Wrong("hands.sessions", "%d must be between 1 and %d", r.Sessions, mostSessions)
	case r.KeySessions < 0 || r.KeySessions > mostSessions:
		return settingsfile.Wrong("hands.key_sessions", "%d must be between 1 and %d", r.KeySessions, mostSessions)
	case r.Idle.Duration < 0 || r.Idle.Duration > longestIdle:
		return settingsfile.Wrong("hands.idle", "%q must be between 1s and %s", r.Idle.Duration, longestIdle)
	}
	for _, key := range append([]string{"permissions", "default_permissions"}, sandboxKeys...) {
		if has(w.Extra, key) {
			return settingsfile.Wrong("codex."+key, "the session is the sandbox of [hands]: remove the key")
		}
	}
	if err := r.CheckLimits(); err != nil {
		return err
	}
	return r.CheckSources()
}

// located is a fault of a file as a Problem.
func located(err error, file string, lines strict.Lines) error {
	var e *strict.Error
	if !errors.As(settingsfile.Located(err, file, lines), &e) {
		return err
	}
	return &Problem{File: file, Line: e.Line, Text: e.Text}
}

const (
	environmentsName = "environments.toml"
	// ofHands begins the file: another one, without [hands], is the operator's.
	ofHands = "# Written by codex-proxy for [hands] of the worker's file.\n"
	// nowhere takes the machine of codex from the places where a command can run. The requests of turns name theirs.
	nowhere = ofHands + "include_local = false\n"
)

// environments has codex execute no command on its own machine, if the worker has hands, or undoes that.
func (h *Home) environments(w *Worker) error {
	if w.Hands != nil {
		return writeEnvironments(h.Dir, nowhere)
	}
	text, err := os.ReadFile(filepath.Join(h.Dir, environmentsName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot read the environments of codex: %w", err)
	case !strings.HasPrefix(string(text), ofHands):
		return nil
	}
	return writeEnvironments(h.Dir, "")
}
