// Package session holds the files of one command of a session: the Spec, which the daemon writes before the start of
// the unit; the Result of the unit's main process; and the record of the unit's end, Ended. A command has ended when
// its Ended exists. Each file is one JSON object with a version.
package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"codex-proxy/internal/lazyregexp"
	"codex-proxy/runner/artifact"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
)

// Version is the version of all three files.
const Version = 1

// The bounds of a Spec.
const (
	MaxSpec    = 1 << 20 // bytes of the file
	MaxTimeout = 24 * time.Hour
	MaxGrace   = time.Minute
	MaxHold    = 24 * time.Hour
	MaxWait    = 50 * time.Minute // of an environment: below TimeoutStartSec= of the unit
	MaxSlot    = 9999

	maxPatterns = 100 // of artifacts
)

// Spec specifies a command. The daemon writes the file; root and the session read it with ReadSpec.
type Spec struct {
	Version int `json:"version"`
	// Args is the command. Its first element is a path, absolute or from the working directory, or a name to look up
	// in PATH.
	Args []string `json:"args"`
	// Directory is the working directory, relative to the workspace.
	Directory string `json:"directory,omitempty"`
	// Env is added to the small environment that every command has.
	Env map[string]string `json:"env,omitempty"`
	// Timeout bounds the command from its start, in nanoseconds. Then it gets SIGTERM, and SIGKILL after Grace.
	Timeout time.Duration `json:"timeout_ns"`
	Grace   time.Duration `json:"grace_ns"`
	// OutputLimit bounds the standard output and the standard error together, in bytes.
	OutputLimit int64 `json:"output_limit"`
	// FileSize bounds each file that the command writes, in bytes (RLIMIT_FSIZE); 0 does not.
	FileSize int64 `json:"file_size,omitempty"`
	// Disk bounds the files that the session may have, in bytes as they lie on the disk: the files of its workspace,
	// its home and its temporary directories together; 0 does not.
	Disk int64 `json:"disk,omitempty"`
	// Hold is how long the unit of a command that did not succeed stays, in nanoseconds, unless it was cancelled.
	Hold time.Duration `json:"hold_ns,omitempty"`
	// Journal has the output go to the journal, too.
	Journal bool `json:"journal,omitempty"`
	// Terminal is the terminal that the command has in place of its three streams, or nil.
	Terminal *Terminal `json:"terminal,omitempty"`
	// Hooks are programs of the administrator that run before and after the command, or nil.
	Hooks *Hooks `json:"hooks,omitempty"`
	// Artifacts are the files of the workspace that are kept when the command has ended, or nil.
	Artifacts *Artifacts `json:"artifacts,omitempty"`
	// Owner is the ID of the user whose session it is: its own toolchains are shown if the settings allow that.
	Owner uint32 `json:"owner,omitempty"`
	// Sandbox has the contents that the settings give to the sandbox of every command, or is nil.
	Sandbox *sandbox.Given `json:"sandbox,omitempty"`
	// Slot is the number of the slot of the pool that the session has leased.
	Slot int `json:"slot"`
	// Repository is the key of the repository with the mirror that the session sees, or "".
	Repository string `json:"repository,omitempty"`
	// Workspace specifies the workspace to make. Without it, the workspace is as the last command of the session left
	// it; the first command of a session in a slot has one.
	Workspace *Workspace `json:"workspace,omitempty"`
	// Environment specifies the packages that the command needs, or is nil.
	Environment *Environment `json:"environment,omitempty"`
}

// Terminal is the size of a terminal at the start of its command.
type Terminal struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Hooks run in the sandbox and the workspace of the command, with its variables. Their output goes to its log.
type Hooks struct {
	Before []string `json:"before,omitempty"` // the command does not run if it fails
	// After runs when the command has ended in any way; its failure changes nothing. CODEX_OUTCOME and
	// CODEX_EXIT_STATUS have the outcome.
	After   []string      `json:"after,omitempty"`
	Timeout time.Duration `json:"timeout_ns"` // of each
}

// MaxHook is the longest timeout of a hook.
const MaxHook = 10 * time.Minute

// Artifacts are files to keep, and their bounds.
type Artifacts struct {
	Patterns []string `json:"patterns"` // of package artifact
	Bytes    int64    `json:"bytes"`    // of all together
	Count    int      `json:"count"`
}

// Workspace is a commit, with the patch applied if there is one, or an empty directory.
type Workspace struct {
	URL    string `json:"url,omitempty"`    // of Spec.Repository: relative URLs of submodules begin here
	Commit string `json:"commit,omitempty"` // 40 or 64 hexadecimal digits; "" empties the workspace
	// Keep has the command take the workspace as it is if the session has made one: the host may have stopped since.
	// Root decides by its note in the slot, and passes the file of that note only if the workspace is to be made.
	Keep bool `json:"keep,omitempty"`
}

// Environment is a request for packages.
type Environment struct {
	// Owner is the owner of the environments that the command uses: a user ID, or paths.Shared.
	Owner string `json:"owner"`
	Name  string `json:"name"` // auto, setup or conda (package environment)
	// SetUp is the text of a file of a set-up, in place of the repository's own, or "".
	SetUp string `json:"set_up,omitempty"`
	// Store is the directory with the packages of a build without the network; "" is the network.
	Store string `json:"store,omitempty"`
	// Facts are environment.Facts of the last build for the user.
	Facts json.RawMessage `json:"facts,omitempty"`
	// Wait bounds the wait for the daemon and the build, or the set-up, in nanoseconds.
	Wait time.Duration `json:"wait_ns"`
	// Snapshot is the snapshot that the session begins with, or nil: the same one for all of its commands.
	Snapshot *Snapshot `json:"snapshot,omitempty"`
}

// Snapshot has the files of the set-up of a commit, which ran in a build of its own.
type Snapshot struct {
	User string `json:"user"` // user ID of its owner
	Key  string `json:"key"`  // setup.SnapshotKey
}

// ReadSpec reads and checks a Spec. It reads from the beginning and leaves the offset of the file, which processes
// share, as it is.
func ReadSpec(file io.ReaderAt) (*Spec, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, MaxSpec+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the specification of the command: %w", err)
	}
	if len(text) > MaxSpec {
		return nil, fmt.Errorf("the specification of the command is longer than %d bytes: shorten its arguments and its "+
			"environment", MaxSpec)
	}
	spec := &Spec{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(spec); err != nil {
		return nil, fmt.Errorf("cannot read the specification of the command: %w", err)
	}
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("the specification of the command is wrong: %w", err)
	}
	return spec, nil
}

// Check returns an error that names the first field out of its range.
func (s *Spec) Check() error {
	switch {
	case s.Version != Version:
		return fmt.Errorf("version is %d, this program knows %d: restart codex-runner.service after an upgrade",
			s.Version, Version)
	case len(s.Args) == 0 || s.Args[0] == "":
		return errors.New("args is empty: name a command")
	case s.Directory != "" && !filepath.IsLocal(s.Directory):
		return fmt.Errorf("directory is %q: use a path that begins in the workspace and stays there", s.Directory)
	case s.Timeout <= 0 || s.Timeout > MaxTimeout:
		return fmt.Errorf("timeout is %v: use a time up to %v", s.Timeout, MaxTimeout)
	case s.Grace < 0 || s.Grace > MaxGrace:
		return fmt.Errorf("grace is %v: use a time from 0 to %v", s.Grace, MaxGrace)
	case s.OutputLimit <= 0:
		return fmt.Errorf("output_limit is %d: use at least 1 byte", s.OutputLimit)
	case s.FileSize < 0:
		return fmt.Errorf("file_size is %d: use a number of bytes, or 0 for no limit", s.FileSize)
	case s.Disk < 0:
		return fmt.Errorf("disk is %d: use a number of bytes, or 0 for no limit", s.Disk)
	case s.Hold < 0 || s.Hold > MaxHold:
		return fmt.Errorf("hold is %v: use a time from 0 to %v", s.Hold, MaxHold)
	case s.Hooks != nil && (s.Hooks.Timeout <= 0 || s.Hooks.Timeout > MaxHook):
		return fmt.Errorf("hooks.timeout is %v: use a time up to %v", s.Hooks.Timeout, MaxHook)
	case s.Slot < 1 || s.Slot > MaxSlot:
		return fmt.Errorf("slot is %d: use 1 to %d", s.Slot, MaxSlot)
	}
	return errors.Join(s.checkSources(), s.checkArtifacts(), s.checkText())
}

var (
	key    = lazyregexp.New(`^[0-9a-f]{16}$`)
	commit = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// checkSources checks the sources of the workspace and the environment.
func (s *Spec) checkSources() error {
	w, e := s.Workspace, s.Environment
	switch {
	case s.Repository != "" && !key.MatchString(s.Repository):
		return fmt.Errorf("repository is %q: use a key, 16 hexadecimal digits", s.Repository)
	case w != nil && w.Commit != "" && !commit.MatchString(w.Commit):
		return fmt.Errorf("workspace.commit is %q: use 40 or 64 hexadecimal digits", w.Commit)
	case w != nil && w.Commit != "" && s.Repository == "":
		return errors.New("workspace.commit needs a repository: name its key")
	case e != nil && (e.Wait <= 0 || e.Wait > MaxWait):
		return fmt.Errorf("environment.wait is %v: use a time up to %v", e.Wait, MaxWait)
	case e != nil && paths.CheckOwner(e.Owner) != nil:
		return fmt.Errorf("environment.owner: %w", paths.CheckOwner(e.Owner))
	case e != nil && e.Store != "" && !filepath.IsAbs(e.Store):
		return fmt.Errorf("environment.store is %q: use an absolute path", e.Store)
	case e != nil && e.Snapshot != nil:
		return e.Snapshot.check()
	}
	return nil
}

func (s *Snapshot) check() error {
	if err := errors.Join(paths.CheckOwner(s.User), paths.CheckEnvironment(s.Key)); err != nil {
		return fmt.Errorf("environment.snapshot: %w", err)
	}
	return nil
}

// checkArtifacts checks the patterns.
func (s *Spec) checkArtifacts() error {
	if s.Artifacts == nil {
		return nil
	}
	if n := len(s.Artifacts.Patterns); n > maxPatterns {
		return fmt.Errorf("artifacts has %d patterns: use at most %d", n, maxPatterns)
	}
	for i, text := range s.Artifacts.Patterns {
		if _, err := artifact.Parse(text); err != nil {
			return fmt.Errorf("artifacts[%d]: %w", i, err)
		}
	}
	return nil
}

var envName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkText refuses texts that execve(2) can't take.
func (s *Spec) checkText() error {
	for i, arg := range s.Args {
		if strings.ContainsRune(arg, 0) {
			return fmt.Errorf("args[%d] has a NUL byte, which no argument can have", i)
		}
	}
	if strings.ContainsRune(s.Directory, 0) {
		return errors.New("directory has a NUL byte, which no path can have")
	}
	for name, value := range s.Env {
		if !envName.MatchString(name) {
			return fmt.Errorf("env has the name %q: use letters, digits and _, and no digit first", name)
		}
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("env %s has a NUL byte, which no variable can have", name)
		}
	}
	return nil
}
