// Package outcome decides how a command ended, in one word of a closed vocabulary. Decide is a pure function of the
// facts that the session's main process, root and systemd left, so the same facts always give the same word, for each
// caller and after any crash.
package outcome

import "codex-proxy/runner/session"

// A Word is how a command ended.
type Word string

// The vocabulary.
const (
	Succeeded         Word = "succeeded"          // with status 0
	Failed            Word = "failed"             // with another status
	Signaled          Word = "signaled"           // by a signal that was not the runner's
	TimedOut          Word = "timed_out"          // ended after its time
	OutOfMemory       Word = "out_of_memory"      // not succeeded, and the kernel killed one of its processes
	TaskLimit         Word = "task_limit"         // not succeeded, and could not start a process or thread
	OutputLimit       Word = "output_limit"       // ended at the limit of its output
	DiskFull          Word = "disk_full"          // ended because the workspace or the log has no room
	Cancelled         Word = "cancelled"          // ended because somebody asked for it
	PatchRejected     Word = "patch_rejected"     // not started
	WorkspaceFailed   Word = "workspace_failed"   // not started
	EnvironmentFailed Word = "environment_failed" // not started
	CommandNotFound   Word = "command_not_found"  // not started: no such program, or not a program
	Lost              Word = "lost"               // its main process died before it could report an end
)

// Words has the whole vocabulary.
func Words() []Word {
	return []Word{Succeeded, Failed, Signaled, TimedOut, OutOfMemory, TaskLimit, OutputLimit, DiskFull, Cancelled,
		PatchRejected, WorkspaceFailed, EnvironmentFailed, CommandNotFound, Lost}
}

// Facts are the facts about a command that has ended: its unit is not active.
type Facts struct {
	Result *session.Result // nil if the main process left no whole one
	Ended  *session.Ended  // nil if root recorded no end: the machine died
	// CancelledBy is the user of the cancellation that the daemon has stored, or empty. It counts if there is no
	// Result: the unit may be stopped before its main process runs.
	CancelledBy string
	// Overdue means that the daemon had the unit stopped, as the command had not ended at the end of its time.
	Overdue bool
	// DiskFull means that the disk of the service has no room. It counts if there is no Result.
	DiskFull bool
}

// An Outcome is the verdict, with its details.
type Outcome struct {
	Word        Word   `json:"outcome"`
	Status      int    `json:"status"`           // the exit status of the command; 0 unless it exited by itself
	Signal      int    `json:"signal,omitempty"` // that ended the command
	Core        bool   `json:"core,omitempty"`
	CancelledBy string `json:"cancelled_by,omitempty"`
	// OOMKills and RefusedForks count, also in commands that succeeded, the processes that the kernel killed for lack
	// of memory, and those that the limit of tasks refused.
	OOMKills     uint64 `json:"oom_kills,omitempty"`
	RefusedForks uint64 `json:"refused_forks,omitempty"`
	// PatchKnown reports that the commit had the change of the patch already.
	PatchKnown bool `json:"patch_known,omitempty"`
	// Note tells people about the set-up, in sentences.
	Note string `json:"note,omitempty"`
	// ExitStatus is the exit status of `codex-runner run`.
	ExitStatus int `json:"exit_status"`
	// Text is a sentence for people, with the remedy if there is one.
	Text string `json:"text"`
}
