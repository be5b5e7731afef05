// Package exec is the main process of a session's unit: it prepares the workspace and the environment, runs one
// command, writes its output to the log, ends it at its limits or when the daemon asks for it, and writes down how it
// ended. It depends on nothing but its own files: the daemon may die meanwhile.
//
// The process ends as soon as the command has, or at the end of its grace. It waits for no other process of the
// session, as systemd kills these then (KillMode=mixed).
package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"codex-proxy/notify"
	"codex-proxy/runner/disk"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
)

// Launch is how the command will be started. A Preparation may change it.
type Launch struct {
	Spec *session.Spec
	Dir  string   // the workspace
	Env  []string // NAME=value, each name once
	// Snapshot is the key of the set-up that a new workspace has had by Spec.Environment.Snapshot, or "".
	Snapshot string
	// Programs has the directories of programs that no command can write.
	Programs sandbox.Programs
	// PatchKnown is Result.PatchKnown.
	PatchKnown bool
	// Provide asks the daemon for an environment, and returns when that is there. The error is the daemon's reason, or
	// the cause of the end of ctx.
	Provide func(ctx context.Context, need *Need) error
}

// Preparation readies something for the command before it starts: its workspace, its environment.
type Preparation interface {
	// Stage names the preparation in the Result of a command that it could not ready.
	Stage() session.Stage
	// Prepare is called once, in the sandbox of the session. ctx ends when the command is cancelled.
	Prepare(ctx context.Context, launch *Launch) error
}

// Shim runs one command. All its fields are set before Run, which is called once.
type Shim struct {
	Files        map[string]*os.File // by the names of package paths; Run closes them
	Notifier     *notify.Notifier    // nil without a service manager
	Score        *os.File            // of Hide; nil leaves the score of the command as it is
	Workspace    string              // paths.Workspace
	Disk         disk.Files          // that Spec.Disk bounds
	Credentials  string              // $CREDENTIALS_DIRECTORY; "" if there are no secrets
	Journal      io.Writer           // gets the output, too, if Spec.Journal is set
	Environ      []string            // of this process, as os.Environ returns it
	Preparations []Preparation       // in their order
	Toolchains   string              // paths.Toolchains; "" if there are none
	Dirty        func() int64        // see Dirty; nil: nothing
	// KillRest kills the rest of a command that had to be ended or has a hook after it; nil leaves the rest to the end
	// of the unit.
	KillRest func()
}

// Run returns when the command has ended, its result is written, and it is not held any more. The end of ctx cancels
// the command. An error is a fault of this process or of its unit; then there is no result.
func (s *Shim) Run(ctx context.Context) error {
	defer s.close()
	for _, name := range []string{paths.SpecFile, paths.OutputFile, paths.IndexFile, paths.ResultFile,
		paths.ControlFile} {
		if s.Files[name] == nil {
			return fmt.Errorf("cannot find the inherited file %q: session-prepare passes it (start the unit by "+
				"systemctl, not this command)", name)
		}
	}
	spec, err := session.ReadSpec(s.Files[paths.SpecFile])
	if err != nil {
		return s.report(failed(session.SpecStage, err))
	}
	if spec.Workspace != nil && spec.Workspace.Keep && s.Files[paths.TenantFile] == nil { // it is there
		spec.Workspace = nil
	}
	if session.IsDiff(spec.Args) { // it needs the workspace as it is, and the patch that the session began with
		spec.Environment, spec.Hooks, spec.Hold, s.Files[paths.StdinFile] = nil, nil, 0, s.Files[paths.PatchFile]
	}
	secrets, err := readSecrets(s.Credentials)
	if err != nil {
		return s.report(failed(session.SpecStage, err))
	}
	log, err := logs.NewWriter(s.Files[paths.OutputFile], s.Files[paths.IndexFile], spec.OutputLimit, secrets)
	if err != nil {
		return err
	}
	if spec.Journal {
		queue := newJournalQueue(s.Journal)
		defer queue.finish()
		lines := newJournalLines(queue)
		defer lines.finish()
		log.Also(lines.add)
	}
	return s.run(ctx, spec, log)
}

func (s *Shim) close() {
	for _, file := range s.Files {
		if file != nil {
			_ = file.Close()
		}
	}
}

// run runs the command.
func (s *Shim) run(ctx context.Context, spec *session.Spec, log *logs.Writer) error {
	listener, err := net.FileListener(s.Files[paths.ControlFile])
	if err != nil {
		return fmt.Errorf("cannot listen on the control socket: %w", err)
	}
	run, running := newRun(spec, log)
	defer run.stop()
	defer terminals{run}.closeTerminal() // when no client has it any more
	control := serve(listener, run)
	defer control.close()
	defer context.AfterFunc(ctx, func() { run.end(session.Cancelled, "systemd") })()
	defer s.watch(run)()
	result := s.command(running, run)
	s.count(result)
	if result.Failure == nil {
		if s.KillRest != nil && (result.Cause != "" || spec.Hooks != nil && len(spec.Hooks.After) > 0) {
			s.KillRest() // the rest must not meddle with the hook, artifacts and the hold
		}
		run.enter(Finishing)
		hooks{s}.after(ctx, run, result)
		s.keep(run, result)
	}
	if err := s.report(result); err != nil {
		return err
	}
	s.hold(ctx, run, result)
	run.enter(Ended)
	return nil
}

// count adds the kernel's counts of the unit's cgroup.
func (s *Shim) count(result *session.Result) {
	result.OOMKills = counter(s.Files[paths.MemoryFile], "oom_kill")
	result.TaskLimit = counter(s.Files[paths.TasksFile], "max")
	result.MemoryPeak = counter(s.Files[paths.PeakFile], "")
	result.Invocation = variable(s.Environ, "INVOCATION_ID")
}

func counter(file *os.File, key string) uint64 {
	if file == nil {
		return 0
	}
	text := make([]byte, 4<<10)
	n, _ := file.ReadAt(text, 0)
	return session.Counter(string(text[:n]), key)
}

// report writes the result.
func (s *Shim) report(result *session.Result) error {
	s.Notifier.Ready(summary(result)) // a start that fails has been reported, too
	text, err := session.Encode(result)
	if err == nil {
		_, err = s.Files[paths.ResultFile].Write(text)
	}
	if err != nil {
		return fmt.Errorf("cannot write the result of the command: %w", err)
	}
	return nil
}

// command prepares and runs the command. ctx ends when the command is to end.
func (s *Shim) command(ctx context.Context, run *run) *session.Result {
	programs, err := s.programs(run.spec)
	if err != nil {
		return run.refused(err)
	}
	launch := &Launch{
		Spec: run.spec, Dir: s.Workspace, Programs: programs, Provide: run.provide,
		Env: variables(s.Environ, given(programs, run.spec), run.spec.Env),
	}
	if err := s.prepare(ctx, launch); err != nil {
		result := run.refused(err)
		if result.HasWorkspace() {
			run.prepared(launch)
		}
		return result
	}
	run.prepared(launch)
	if err := s.setUp(ctx, run); err != nil {
		return run.refused(err)
	}
	if err := (hooks{s}).before(ctx, run); err != nil {
		return run.refused(err)
	}
	if ctx.Err() != nil {
		return run.refused(errCancelled)
	}
	// The watchdog of the unit begins with READY=1, and the command may stop this process as soon as it runs.
	s.Notifier.Ready("Running: " + run.spec.Args[0])
	child, err := s.start(run, run.launch)
	if err != nil {
		return run.refused(err)
	}
	run.begin(child)
	defer s.bound(run)()
	defer s.preserve(launch)()
	return run.follow(child, func(cause session.Cause) { s.Notifier.Status("Ending: " + string(cause)) })
}

func (s *Shim) start(run *run, launch *Launch) (*child, error) {
	streams, err := terminals{run}.streams(s.Files[paths.StdinFile])
	if err != nil {
		return nil, err
	}
	run.starting.Lock()
	defer run.starting.Unlock()
	return start(launch, streams, &inheritance{score: s.Score, fileSize: run.spec.FileSize})
}

// bound begins to watch the disk; end ends that.
func (s *Shim) bound(run *run) (end func()) {
	if run.spec.Disk == 0 {
		return func() {}
	}
	return background(func(ctx context.Context) { run.watchDisk(ctx, s.Disk) })
}

// watch begins to ping the service manager; end ends that. A command can stop this process (SIGSTOP), which has the
// same user: then nothing but the service manager bounds the command.
func (s *Shim) watch(run *run) (end func()) {
	return background(func(ctx context.Context) {
		_ = s.Notifier.RunWatchdog(ctx, s.Notifier.WatchdogInterval(),
			run.alive)
	})
}

// background runs do in a goroutine; end cancels it and waits for it.
func background(do func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { do(ctx) })
	return func() {
		cancel()
		done.Wait()
	}
}

func (s *Shim) prepare(ctx context.Context, launch *Launch) error {
	for _, p := range s.Preparations {
		s.Notifier.Status("Preparing: " + string(p.Stage()))
		if err := p.Prepare(ctx, launch); err != nil {
			return &stageError{p.Stage(), err}
		}
	}
	return nil
}

// errCancelled is why a command that was cancelled before its start did not run.
var errCancelled = &stageError{session.StartStage, errors.New("it was cancelled before its start")}

// stageError is an error that leaves the command without a run.
type stageError struct {
	stage session.Stage
	err   error
}

func (e *stageError) Error() string { return e.err.Error() }

func (e *stageError) Unwrap() error { return e.err }

func failed(stage session.Stage, err error) *session.Result {
	_, mirror := errors.AsType[*mirrorError](err)
	return &session.Result{
		Version: session.Version, Failure: &session.Failure{Stage: stage, Text: err.Error(), Mirror: mirror},
	}
}

// summary is the end of the command for the status line of the unit.
func summary(r *session.Result) string {
	switch {
	case r.Failure != nil:
		return "Not started: " + r.Failure.Text
	case !r.Exited:
		return "Ended: " + string(r.Cause) + ", still running after its grace"
	case r.Signal != 0:
		return fmt.Sprintf("Ended: signal %d", r.Signal)
	}
	return fmt.Sprintf("Ended: exit status %d", r.Status)
}
