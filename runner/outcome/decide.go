package outcome

import (
	"cmp"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/session"
)

// Decide returns the outcome of a command.
//
// The report of the main process counts first, and is enough to decide: why it ended the command, or else why it
// started none, or else how the command ended by itself. A command that did not succeed ran out of memory, or into its
// limit of tasks, if the kernel has counted that. Without a report, root's record and systemd's result count.
func Decide(f Facts) Outcome {
	o := Outcome{}
	if f.Ended != nil {
		o.OOMKills, o.RefusedForks = f.Ended.OOMKills, f.Ended.TaskLimit
	}
	detail := ""
	if r := f.Result; r != nil {
		o.OOMKills, o.RefusedForks = max(o.OOMKills, r.OOMKills), max(o.RefusedForks, r.TaskLimit)
		o.Status, o.Signal, o.Core, o.PatchKnown, o.Note = r.Status, r.Signal, r.Core, r.PatchKnown, r.Note
		o.Word, detail = o.reported(r)
		if o.Word == Cancelled && f.Overdue { // by systemd, for the daemon
			o.Word = TimedOut
		}
	} else {
		o.Word, detail = o.recorded(f)
	}
	if o.Word == Cancelled {
		o.CancelledBy = f.CancelledBy
		if f.Result != nil {
			o.CancelledBy = f.Result.CancelledBy
		}
	}
	o.ExitStatus = o.exitStatus(f.Result)
	o.Text = o.text(detail)
	if o.PatchKnown {
		o.Text += " The commit had the change of the patch already."
	}
	if o.Note != "" {
		o.Text += " " + o.Note
	}
	return o
}

// ended is the word for each cause for which the main process ends a command.
var ended = map[session.Cause]Word{
	session.TimedOut:    TimedOut,
	session.Cancelled:   Cancelled,
	session.OutputLimit: OutputLimit,
	session.DiskFull:    DiskFull,
	session.LogFailed:   DiskFull, // the daemon's disk
}

// unstarted is the word for each stage that fails before the command. The daemon checked the specification before, so
// a session that cannot read it is at fault itself.
var unstarted = map[session.Stage]Word{
	session.SpecStage:     WorkspaceFailed,
	session.WorkspaceTask: WorkspaceFailed,
	session.PatchTask:     PatchRejected,
	session.EnvTask:       EnvironmentFailed,
	session.HookTask:      WorkspaceFailed, // the hook prepares the command
	session.NotFound:      CommandNotFound,
	session.NotExecutable: CommandNotFound,
	session.StartStage:    WorkspaceFailed,
}

// reported is the word, and its detail, by the report of the main process.
func (o *Outcome) reported(r *session.Result) (Word, string) {
	switch {
	case r.Cause != "":
		return cmp.Or(ended[r.Cause], Lost), r.LogError
	case r.Failure != nil:
		word := cmp.Or(unstarted[r.Failure.Stage], WorkspaceFailed)
		if r.Failure.Stage == session.StartStage {
			word = o.short(word)
		}
		return word, r.Failure.Text
	case !r.Exited:
		return Lost, "it did not end"
	case r.Signal != 0:
		return o.short(Signaled), ""
	case r.Status != 0:
		return o.short(Failed), ""
	}
	return Succeeded, ""
}

// recorded is the word without a report.
func (o *Outcome) recorded(f Facts) (Word, string) {
	switch e := f.Ended; {
	case f.CancelledBy != "":
		return Cancelled, ""
	case f.Overdue:
		return TimedOut, ""
	case f.DiskFull && (e == nil || e.Refusal != "" || e.ServiceResult != "oom-kill" && e.ServiceResult != "timeout"):
		return DiskFull, "its end could not be recorded in /var/lib/codex-runner"
	case e == nil:
		return Lost, "the host stopped or restarted"
	case e.Refusal != "":
		return WorkspaceFailed, e.Refusal
	case e.ServiceResult == "oom-kill":
		return OutOfMemory, ""
	case e.ServiceResult == "timeout" && e.ExitCode != "":
		return TimedOut, ""
	case e.ExitCode == "":
		return WorkspaceFailed, "systemd could not start the session, with the result " + e.ServiceResult
	default:
		return o.short(Lost), "the main process of the session ended: " + e.ExitCode + " " + e.ExitStatus
	}
}

// short is the word of a command that did not succeed: the lack that the kernel noticed, or else the given word.
func (o *Outcome) short(word Word) Word {
	switch {
	case o.OOMKills > 0:
		return OutOfMemory
	case o.RefusedForks > 0:
		return TaskLimit
	}
	return word
}

// Exit statuses of env(1) and timeout(1).
const (
	timedOut      = 124
	runnerFailed  = 125
	notExecutable = 126
	notFound      = 127
	signaled      = 128 // and the signal
)

// exitStatus is the exit status of `codex-runner run`: the command's own status, if the command ended by itself.
func (o *Outcome) exitStatus(r *session.Result) int {
	switch o.Word {
	case Succeeded:
		return 0
	case Failed, Signaled, TaskLimit:
		switch {
		case o.Signal != 0:
			return signaled + o.Signal
		case o.Status != 0:
			return o.Status
		}
	case TimedOut:
		return timedOut
	case OutOfMemory:
		return signaled + int(unix.SIGKILL)
	case Cancelled:
		return signaled + int(unix.SIGINT)
	case CommandNotFound:
		if r.Failure.Stage == session.NotExecutable {
			return notExecutable
		}
		return notFound
	}
	return runnerFailed
}
