package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Probe asks a program once whether it works. It returns a detail for people, or the
// reason why it did not pass, soon after its context is done at the latest.
type Probe = func(context.Context) (detail string, err error)

// Command is a program that does not speak sd_notify(3), with the probes of its
// health.
type Command struct {
	Args []string // the program, looked up in PATH, and its arguments

	// Files are open files that the command inherits, from descriptor 3 on.
	Files []*os.File

	// Attr, if not nil, are further attributes of the command's process. Exec sets the
	// process group and the signal at our own end.
	Attr *syscall.SysProcAttr
	// Started, if not nil, is called once the process of the command exists. Its error
	// ends the command.
	Started func() error

	// Ready decides when the command has started: all of its probes pass, one after
	// another, Passes times in succession. Without a probe the command has started as
	// soon as its process runs.
	Ready  []Probe
	Passes int // a quarter of a second apart; 0 is 1
	// Alive decides, after that, whether the service manager's watchdog gets its
	// pings. It may check less than Ready: a fault outside the process is no reason
	// to kill it. After one and a half intervals without a pass Exec kills the
	// command itself: the watchdog is off while a unit is being stopped.
	Alive Probe
	// ProbeInterval is the period of Alive while it passes; a probe that fails is
	// repeated after a quarter of it. 0 means a third of the watchdog interval.
	// ProbeInterval and ProbeTimeout together must be less than the watchdog interval.
	ProbeInterval time.Duration
	// ProbeTimeout bounds one probe. 0 means ProbeInterval or a third of the watchdog
	// interval, the lesser one, and five seconds without both, but ten seconds at least
	// until Ready has passed. Without ProbeInterval the third is always a bound after
	// start-up.
	ProbeTimeout time.Duration

	// StopTimeout bounds the time from a stop signal to the end of the command; then
	// Exec kills it. 0: the service manager sets the bound.
	StopTimeout time.Duration

	// Drain delays the effect of SIGTERM until Relay has no connection: then the
	// command gets SIGHUP in its place. It is for `systemctl kill`, which sends
	// SIGTERM to all processes of a unit; a stop of the unit should send another
	// signal (KillSignal=). Exec passes on a second SIGTERM as SIGINT, at once.
	Drain bool
	// Stopped, if not nil, reports whether a SIGTERM belongs to a stop of the unit:
	// then Drain has no effect. Exec passes on no signal before it returns.
	Stopped func(context.Context) bool
	// Rest, once closed, ends a command that has no work to do: Exec closes the
	// listeners of Relay, and the command gets SIGHUP when Relay has no connection.
	// Nil: nothing closes it.
	Rest <-chan struct{}
	// BlockTerm starts the command with SIGTERM blocked, so that `systemctl kill`
	// does not end it. Its child processes inherit that.
	BlockTerm bool

	// Stderr, if not nil, receives the standard error of the command, one line with its end per call; else the command
	// shares ours. A line of more than 64 KiB has several pieces, of which only the last has the end. No byte is lost.
	// A goroutine of its own makes the calls one after another.
	Stderr func(piece string)

	// MemoryEvents is the file in which the kernel counts its out-of-memory kills: a
	// command that ends by one leaves ENOMEM behind, see Notifier.Failed. Empty: Exec
	// detects no such kill.
	MemoryEvents string

	// Relay, if not nil, serves inherited sockets once the command is ready.
	Relay *Relay
}

// flushBound bounds the delivery of an exited command's last bytes to the relay's
// clients.
const flushBound = time.Second

// forwarded signals go on to the command. SIGABRT is the default WatchdogSignal=: it
// makes the command print its stacks.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
}

// Exec runs a command as the main process of a Type=notify unit: it sends READY=1
// once the command is ready, WATCHDOG=1 only while it is alive, and STATUS= in
// words; it passes on signals, and the command shares stdin, stdout and stderr. It
// returns the command's wait status, with which Exit ends this process. The error is
// not nil if the command could not be started; ExitExec is the exit status for that.
//
// The command has a process group of its own, so it receives each signal once even
// if a terminal signals a whole group. It dies with this process. The end of ctx
// sends it SIGTERM, so ctx must not depend on the signals above: some programs take
// a second SIGTERM for a demand to end at once.
func Exec(ctx context.Context, n *Notifier, logger *slog.Logger, c Command) (syscall.WaitStatus, error) {
	// PR_SET_PDEATHSIG fires when the *thread* that forked ends. This one
	// lasts as long as the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)

	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = CommandEnv(os.Environ())
	stderr, err := newStderrPipe(c.Stderr)
	if err != nil {
		return 0, fmt.Errorf("cannot read the standard error of %q: %w", c.Args[0], err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, stderr.file()
	cmd.ExtraFiles = c.Files
	cmd.SysProcAttr = c.attributes()
	defer func() { _ = c.Relay.Close() }()
	s := newSupervisor(n, logger, c)
	if err := start(cmd, c.BlockTerm); err != nil {
		stderr.close()
		return 0, fmt.Errorf("cannot start %q: %w", c.Args[0], cause(err))
	}
	if err := c.started(); err != nil {
		_, _ = cmd.Process.Kill(), cmd.Wait()
		stderr.close()
		return 0, err
	}

	s.kill = func() { s.killed.Store(true); _ = cmd.Process.Kill() }

	var tasks sync.WaitGroup
	probing, stopProbing := context.WithCancel(context.WithoutCancel(ctx))
	exited, markExited := context.WithCancel(context.WithoutCancel(ctx))
	tasks.Go(func() { s.supervise(probing, exited) })
	tasks.Go(stderr.run)
	tasks.Go(func() { _ = cmd.Wait(); stderr.end(); markExited() }) // the status is in ProcessState

	overdue := time.AfterFunc(math.MaxInt64, s.endLate)
	defer overdue.Stop()
	stopTimeout := sync.OnceFunc(func() {
		if c.StopTimeout > 0 {
			overdue.Reset(c.StopTimeout)
		}
	})
	end := func(sig os.Signal) {
		stopTimeout()
		// Signal fails only if the process has ended.
		_ = cmd.Process.Signal(sig)
		_ = cmd.Process.Signal(syscall.SIGCONT) // as systemd does, so that a stopped process ends too
	}
	draining := false
	drain := func(status string) {
		draining = true
		_ = c.Relay.Close() // connections wait in the backlog for the next start
		s.stopping(status)  // the probes go on, to detect a hang
		tasks.Go(func() { s.drain(exited, func() { end(syscall.SIGHUP) }) })
	}
	forward(ctx, exited, signals, c.Rest, func(sig os.Signal) {
		switch {
		case sig == rest && !draining:
			drain("Stopping: nothing runs")
		case sig == rest:
		case !stops(sig):
			_ = cmd.Process.Signal(sig)
		case sig == syscall.SIGTERM && c.Drain && !draining && !c.stopped(ctx):
			drain("Stopping: what runs is finished")
		default:
			stopProbing()
			s.stopping("Stopping: " + signalName(sig))
			if sig == syscall.SIGTERM && c.Drain {
				sig = syscall.SIGINT // the command may have SIGTERM blocked
			}
			end(sig)
		}
	})
	stopProbing()
	tasks.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	s.exited(status)
	return status, nil
}

func (c Command) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if c.Attr != nil {
		*attr = *c.Attr
	}
	attr.Setpgid, attr.Pdeathsig = true, syscall.SIGKILL
	return attr
}

func (c Command) started() error {
	if c.Started == nil {
		return nil
	}
	return c.Started()
}

func (c Command) stopped(ctx context.Context) bool { return c.Stopped != nil && c.Stopped(ctx) }

// start starts the command, which inherits the signal mask of this thread. The caller
// has locked the thread.
func start(cmd *exec.Cmd, blockTerm bool) error {
	if blockTerm {
		if err := maskTerm(unix.SIG_BLOCK); err != nil {
			return err
		}
		defer maskTerm(unix.SIG_UNBLOCK) //nolint:errcheck // blocking has succeeded, so unblocking does
	}
	return cmd.Start()
}

// rest stands for the close of Command.Rest among the signals; no signal has number 0.
const rest = syscall.Signal(0)

// forward passes signals on until the command has exited.
func forward(ctx, exited context.Context, signals <-chan os.Signal, resting <-chan struct{}, pass func(os.Signal)) {
	cancelled := ctx.Done()
	for {
		select {
		case <-exited.Done():
			return
		case sig := <-signals:
			pass(sig)
		case <-resting:
			resting = nil
			pass(rest)
		case <-cancelled:
			cancelled = nil
			pass(syscall.SIGTERM)
		}
	}
}

// stops distinguishes the signals that end a program from those that usually make
// it reload, rotate its logs or dump its state.
func stops(sig os.Signal) bool {
	switch sig {
	case syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2:
		return false
	default:
		return true
	}
}

// cause drops the layer of an exec error that repeats the program's name.
func cause(err error) error {
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		return lookup.Err
	}
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
