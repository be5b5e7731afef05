package outcome

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/runner/session"
	"codex-proxy/test/nightly"
)

func exited(status int) *session.Result { return &session.Result{Exited: true, Status: status} }

func killed(signal int) *session.Result { return &session.Result{Exited: true, Signal: signal} }

func ending(cause session.Cause) *session.Result {
	return &session.Result{Exited: true, Signal: 15, Cause: cause, CancelledBy: "alice"}
}

func failure(stage session.Stage) *session.Result {
	return &session.Result{Failure: &session.Failure{Stage: stage, Text: "because"}}
}

func unit(result, code, status string) *session.Ended {
	return &session.Ended{ServiceResult: result, ExitCode: code, ExitStatus: status}
}

func TestDecide(t *testing.T) {
	clean := unit("success", "exited", "0")
	oom := &session.Ended{ServiceResult: "success", ExitCode: "exited", ExitStatus: "0", OOMKills: 1}
	tasks := &session.Ended{ServiceResult: "success", ExitCode: "exited", ExitStatus: "0", TaskLimit: 3}
	for name, c := range map[string]struct {
		facts Facts
		word  Word
		exit  int
		text  string
	}{
		"true":                     {Facts{Result: exited(0), Ended: clean}, Succeeded, 0, "The command succeeded."},
		"exit 3":                   {Facts{Result: exited(3), Ended: clean}, Failed, 3, "The command failed with status 3."},
		"no record yet":            {Facts{Result: exited(3)}, Failed, 3, "status 3"},
		"SIGSEGV":                  {Facts{Result: &session.Result{Exited: true, Signal: 11, Core: true}, Ended: clean}, Signaled, 139, "The command was killed by SIGSEGV and dumped core."},
		"SIGXFSZ":                  {Facts{Result: killed(25), Ended: clean}, Signaled, 153, "killed by SIGXFSZ: it wrote a file larger than it may"},
		"a real-time signal":       {Facts{Result: killed(40), Ended: clean}, Signaled, 168, "killed by signal 40."},
		"timeout":                  {Facts{Result: ending(session.TimedOut), Ended: clean}, TimedOut, 124, "ran longer than its time"},
		"timeout, ignored":         {Facts{Result: &session.Result{Cause: session.TimedOut}, Ended: clean}, TimedOut, 124, "ran longer"},
		"timeout, exit 0":          {Facts{Result: &session.Result{Exited: true, Cause: session.TimedOut}, Ended: clean}, TimedOut, 124, "ran longer"},
		"timeout after an OOM":     {Facts{Result: ending(session.TimedOut), Ended: oom}, TimedOut, 124, "ran longer"},
		"timeout of systemd":       {Facts{Ended: unit("timeout", "killed", "KILL")}, TimedOut, 124, "ran longer"},
		"OOM of the command":       {Facts{Result: killed(9), Ended: oom}, OutOfMemory, 137, "ran out of memory"},
		"OOM of a child":           {Facts{Result: exited(1), Ended: oom}, OutOfMemory, 137, "ran out of memory"},
		"OOM, handled":             {Facts{Result: exited(0), Ended: oom}, Succeeded, 0, "succeeded"},
		"OOM of the main process":  {Facts{Ended: unit("oom-kill", "killed", "KILL")}, OutOfMemory, 137, "ran out of memory"},
		"SIGKILL":                  {Facts{Result: killed(9), Ended: clean}, Signaled, 137, "killed by SIGKILL"},
		"tasks":                    {Facts{Result: exited(254), Ended: tasks}, TaskLimit, 254, "limit of processes and threads"},
		"tasks, by a signal":       {Facts{Result: killed(6), Ended: tasks}, TaskLimit, 134, "limit of processes"},
		"tasks, handled":           {Facts{Result: exited(0), Ended: tasks}, Succeeded, 0, "succeeded"},
		"tasks, not started":       {Facts{Result: failure(session.StartStage), Ended: tasks}, TaskLimit, 125, "limit of processes"},
		"output":                   {Facts{Result: ending(session.OutputLimit), Ended: clean}, OutputLimit, 125, "more output than it may"},
		"disk":                     {Facts{Result: ending(session.DiskFull), Ended: clean}, DiskFull, 125, "a disk or its share of it is full; remove"},
		"disk of the log":          {Facts{Result: &session.Result{Cause: session.LogFailed, LogError: "no space left"}, Ended: clean}, DiskFull, 125, "is full: no space left; remove"},
		"cancelled":                {Facts{Result: ending(session.Cancelled), Ended: clean}, Cancelled, 130, "The command was cancelled by alice."},
		"cancelled, not started":   {Facts{CancelledBy: "alice", Ended: unit("success", "", "")}, Cancelled, 130, "cancelled by alice"},
		"overdue, killed":          {Facts{Overdue: true, Ended: unit("timeout", "killed", "KILL")}, TimedOut, 124, "longer than its time"},
		"overdue, stopped":         {Facts{Overdue: true, Result: &session.Result{Exited: true, Cause: session.Cancelled, CancelledBy: "systemd"}, Ended: clean}, TimedOut, 124, "longer than its time"},
		"full disk, no record":     {Facts{DiskFull: true}, DiskFull, 125, "could not be recorded in /var/lib/codex-runner"},
		"full disk, no result":     {Facts{DiskFull: true, Ended: unit("exit-code", "exited", "1")}, DiskFull, 125, "could not be recorded"},
		"full disk, but a result":  {Facts{DiskFull: true, Result: exited(3), Ended: clean}, Failed, 3, "status 3"},
		"cancelled too late":       {Facts{Result: exited(3), CancelledBy: "alice", Ended: clean}, Failed, 3, "status 3"},
		"cancelled while prepared": {Facts{Result: &session.Result{Cause: session.Cancelled, CancelledBy: "systemd", Failure: &session.Failure{}}, Ended: clean}, Cancelled, 130, "cancelled by systemd"},
		"patch":                    {Facts{Result: failure(session.PatchTask), Ended: clean}, PatchRejected, 125, "The patch was rejected, and the command not started: because."},
		"workspace":                {Facts{Result: failure(session.WorkspaceTask), Ended: clean}, WorkspaceFailed, 125, "The workspace could not be made ready, and the command not started: because."},
		"specification":            {Facts{Result: failure(session.SpecStage), Ended: clean}, WorkspaceFailed, 125, "because"},
		"no directory":             {Facts{Result: failure(session.StartStage), Ended: clean}, WorkspaceFailed, 125, "because"},
		"environment":              {Facts{Result: failure(session.EnvTask), Ended: clean}, EnvironmentFailed, 125, "The environment could not be made ready"},
		"no program":               {Facts{Result: failure(session.NotFound), Ended: clean}, CommandNotFound, 127, "The command could not be started: because."},
		"no executable":            {Facts{Result: failure(session.NotExecutable), Ended: clean}, CommandNotFound, 126, "could not be started"},
		"refused by root":          {Facts{Ended: &session.Ended{ServiceResult: "exit-code", Refusal: "no slot"}}, WorkspaceFailed, 125, "not started: no slot."},
		"a unit without resources": {Facts{Ended: unit("resources", "", "")}, WorkspaceFailed, 125, "systemd could not start the session, with the result resources."},
		"a start that took long":   {Facts{Ended: unit("timeout", "", "")}, WorkspaceFailed, 125, "with the result timeout."},
		"main process killed":      {Facts{Ended: unit("signal", "killed", "SEGV")}, Lost, 125, "unknown: the main process of the session ended: killed SEGV; run it again."},
		"host restarted":           {Facts{}, Lost, 125, "unknown: the host stopped or restarted; run it again."},
		"a report without an end":  {Facts{Result: &session.Result{}, Ended: clean}, Lost, 125, "it did not end"},
		"a cause of later":         {Facts{Result: ending("later"), Ended: clean}, Lost, 125, "unknown"},
		"a stage of later":         {Facts{Result: failure("later"), Ended: clean}, WorkspaceFailed, 125, "because"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Decide(c.facts)
			assert.Equal(t, c.word, o.Word)
			assert.Equal(t, c.exit, o.ExitStatus)
			assert.Contains(t, o.Text, c.text)
		})
	}
}

func TestDetails(t *testing.T) {
	o := Decide(Facts{
		Result: &session.Result{Exited: true, Signal: 11, Core: true},
		Ended:  &session.Ended{OOMKills: 2, TaskLimit: 3},
	})
	assert.Equal(t, Outcome{Word: OutOfMemory, Signal: 11, Core: true, OOMKills: 2, RefusedForks: 3, ExitStatus: 137,
		Text: o.Text}, o)
}

// pick returns one of the values.
func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

func anyFacts(random *rand.Rand) Facts {
	var f Facts
	if random.IntN(3) > 0 {
		f.Result = &session.Result{Exited: pick(random, true, false), Status: pick(random, 0, 1, 124, 255),
			Signal: pick(random, 0, 0, 9, 40), CancelledBy: "a", Cause: pick(random, "", "", session.TimedOut, session.Cancelled,
				session.OutputLimit, session.DiskFull, session.LogFailed, "later")}
		if random.IntN(3) == 0 {
			f.Result.Failure = &session.Failure{Text: "because", Stage: pick(random, session.SpecStage, session.WorkspaceTask,
				session.PatchTask, session.EnvTask, session.NotFound, session.NotExecutable, session.StartStage, "later")}
		}
	}
	if random.IntN(3) > 0 {
		f.Ended = &session.Ended{OOMKills: uint64(random.IntN(2)), TaskLimit: uint64(random.IntN(2)),
			Refusal: pick(random, "", "", "no"), ExitCode: pick(random, "", "exited", "killed", "dumped"),
			ServiceResult: pick(random, "success", "exit-code", "signal", "core-dump", "watchdog", "timeout", "oom-kill",
				"resources", "start-limit-hit", "protocol", "exec-condition")}
	}
	f.CancelledBy = pick(random, "", "", "b")
	return f
}

// For any facts: a word of the vocabulary, a sentence, and an exit status that fits; 0 for success alone.
func TestEveryEndHasAnOutcome(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[Word]bool{}
	for range nightly.Or(50_000, 10_000) {
		f := anyFacts(random)
		o := Decide(f)
		seen[o.Word] = true
		assert.Contains(t, Words(), o.Word)
		assert.Equal(t, o.Word == Succeeded, o.ExitStatus == 0, "%+v", o)
		assert.True(t, o.ExitStatus >= 0 && o.ExitStatus <= 255, "%+v", o)
		assert.True(t, strings.HasPrefix(o.Text, "The ") && strings.HasSuffix(o.Text, "."), o.Text)
		assert.Equal(t, o.Word == Cancelled, o.CancelledBy != "")
		assert.Equal(t, o, Decide(f), "it is a function")
		if o.Word == Succeeded {
			assert.True(t, f.Result.Exited && f.Result.Status == 0 && f.Result.Cause == "" && f.Result.Failure == nil)
		}
	}
	assert.Len(t, seen, len(Words()))
}
