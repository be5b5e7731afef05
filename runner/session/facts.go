package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Cause is why the main process ended a command that had not ended by itself.
type Cause string

// The causes.
const (
	TimedOut    Cause = "timed_out"    // Spec.Timeout
	Cancelled   Cause = "cancelled"    // Result.CancelledBy
	OutputLimit Cause = "output_limit" // Spec.OutputLimit
	DiskFull    Cause = "disk_full"    // Spec.Disk
	LogFailed   Cause = "log_failed"   // the output could not be written, Result.LogError
)

// Stage is the step in which the main process failed, so that no command ran.
type Stage string

// The stages. NotFound and NotExecutable are about the command itself, as the exit statuses 127 and 126 of env(1).
const (
	SpecStage     Stage = "spec"
	WorkspaceTask Stage = "workspace"
	PatchTask     Stage = "patch"
	EnvTask       Stage = "environment"
	HookTask      Stage = "hook"
	NotFound      Stage = "not_found"
	NotExecutable Stage = "not_executable"
	StartStage    Stage = "start"
)

// Failure is a stage that failed, and the reason with its remedy.
type Failure struct {
	Stage Stage  `json:"stage"`
	Text  string `json:"text"`
	// Mirror reports that the workspace could not be made, as it seems, because of the repository's mirror.
	Mirror bool `json:"mirror,omitempty"`
}

// The refusals of a command of a session that has lost its files.
const (
	NoWorkspace = "no workspace was made there for this session"
	NoSnapshot  = "the rest of its files is gone"
)

// HasLostFiles reports whether a reason has one of these refusals.
func HasLostFiles(reason string) bool {
	return strings.Contains(reason, NoWorkspace) || strings.Contains(reason, NoSnapshot)
}

// SnapshotFault is why a set-up ran in the session, though there was to be a snapshot.
type SnapshotFault string

// The faults of a snapshot.
const (
	SnapshotMissing SnapshotFault = "missing" // it is not there, or not whole
	SnapshotStale   SnapshotFault = "stale"   // a tool of the host has changed since
)

// Result is the report of the unit's main process on the command's end: facts, no verdict. It is written once, when the
// command has ended or has outlived its grace. A Result that is not there, or not whole, means that the main process
// itself was killed.
type Result struct {
	Version int      `json:"version"`
	Failure *Failure `json:"failure,omitempty"`
	// Started and Ended are times of the command; both are zero if none ran.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Exited reports that the command ended: with Status, or with Signal if that is not 0. A command that outlived its
	// grace is killed by systemd.
	Exited bool `json:"exited"`
	Status int  `json:"status"`
	Signal int  `json:"signal,omitempty"`
	Core   bool `json:"core,omitempty"` // a core was dumped (WCOREDUMP of wait(2))
	// Cause is empty if the command ended by itself.
	Cause       Cause  `json:"cause,omitempty"`
	CancelledBy string `json:"cancelled_by,omitempty"`
	LogError    string `json:"log_error,omitempty"`
	// HookFault is why the hook after the command failed; "" if it did not.
	HookFault string `json:"hook_fault,omitempty"`
	// ArtifactsFault is why not all artifacts were kept; "" if they were.
	ArtifactsFault string `json:"artifacts_fault,omitempty"`
	// Bytes is the size of the output.
	Bytes int64 `json:"bytes"`
	// PatchKnown reports that the commit had the change of the patch already.
	PatchKnown bool `json:"patch_known,omitempty"`
	// Note tells people about the set-up, in sentences, or is "".
	Note string `json:"note,omitempty"`
	// Snapshot is the fault of the snapshot Spec.Environment.Snapshot in a new workspace; "" if the workspace has all
	// of it, or the set-up did not run. A set-up that has run without a snapshot is to have one: the host may have
	// lacked its programs before.
	Snapshot SnapshotFault `json:"snapshot,omitempty"`
	// Disk is how many bytes the files of the session took on the disk when they were last counted; 0 if they were not.
	Disk int64 `json:"disk,omitempty"`
	// OOMKills, TaskLimit, MemoryPeak and Invocation are as in Ended, at the end of the command.
	OOMKills   uint64 `json:"oom_kills"`
	TaskLimit  uint64 `json:"task_limit"`
	MemoryPeak uint64 `json:"memory_peak"`
	Invocation string `json:"invocation,omitempty"`
	// User and System are CPU times of the command and of the children that it has waited for, in nanoseconds; MaxRSS
	// is the resident set of the largest of these processes, in bytes (getrusage(2)). They are 0 unless Exited.
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	MaxRSS int64         `json:"max_rss"`
}

// HasWorkspace is false if the main process did not make the workspace: it may still have the files of another session,
// which nothing may see.
func (r *Result) HasWorkspace() bool {
	return r.Failure == nil || r.Failure.Stage != WorkspaceTask && r.Failure.Stage != SpecStage
}

// HasSettled is false if the main process did not make the workspace with its patch: the next command makes it.
func (r *Result) HasSettled() bool {
	return r.HasWorkspace() && (r.Failure == nil || r.Failure.Stage != PatchTask)
}

// Ended is the end of the unit as systemd and its cgroup report it. It is written by root after every end, when no
// process of the session is left.
type Ended struct {
	Version int `json:"version"`
	// ServiceResult, ExitCode and ExitStatus are $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS of systemd.exec(5), about
	// the main process of the unit. The latter two are empty if it has not run.
	ServiceResult string    `json:"service_result"`
	ExitCode      string    `json:"exit_code,omitempty"`
	ExitStatus    string    `json:"exit_status,omitempty"`
	Invocation    string    `json:"invocation"` // $INVOCATION_ID, _SYSTEMD_INVOCATION_ID of the journal
	Boot          string    `json:"boot"`       // /proc/sys/kernel/random/boot_id
	Time          time.Time `json:"time"`
	// Refusal is why root did not prepare the start; no main process ran then.
	Refusal string `json:"refusal,omitempty"`
	// OOMKills and TaskLimit count, in the unit's cgroup, the processes that the kernel killed for lack of memory
	// (oom_kill of memory.events) and the forks that TasksMax= refused (max of pids.events). MemoryPeak is in bytes.
	// They are 0 without the controllers.
	OOMKills   uint64 `json:"oom_kills"`
	TaskLimit  uint64 `json:"task_limit"`
	MemoryPeak uint64 `json:"memory_peak"`
}

// errPartial is the error about a file with an interrupted writer.
var errPartial = errors.New("the file is not whole")

// Encode returns a file: a line of JSON.
func Encode[T Spec | Result | Ended](v *T) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(text, '\n'), err
}

// ReadResult reads a Result. The error is about a file that is not whole, too.
func ReadResult(r io.Reader) (*Result, error) { return read[Result](r, "result") }

// ReadEnded reads an Ended as ReadResult reads a Result.
func ReadEnded(r io.Reader) (*Ended, error) { return read[Ended](r, "end of the unit") }

// maxFacts is more than any Result or Ended has, in bytes.
const maxFacts = 1 << 20

func read[T Result | Ended](r io.Reader, what string) (*T, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFacts))
	v := new(T)
	if err == nil && (len(text) == 0 || text[len(text)-1] != '\n') {
		err = errPartial
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the %s: %w", what, err)
	}
	return v, nil
}
