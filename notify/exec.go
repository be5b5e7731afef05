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

// Command is a program that does not speak sd_notify(3), and how to tell how it
// is doing. A probe returns a detail for people or why it did not pass, soon
// after its context is done at the latest.
type Command struct {
	Args []string // the program, looked up in PATH, and its arguments

	// Ready decides when the command has started; without it, it has as soon
	// as its process runs.
	Ready func(context.Context) (detail string, err error)
	// Alive decides, after that, whether the service manager's watchdog is
	// kept quiet. It may ask for less than Ready: what lies outside the
	// process is no reason to have it killed. After one and a half intervals
	// without a pass the command is killed in any case: the watchdog rests while
	// a unit is being stopped.
	Alive func(context.Context) (detail string, err error)
	// ProbeTimeout bounds one probe. 0 means a third of the watchdog interval,
	// or five seconds without a watchdog; after start-up the third is a bound
	// in any case.
	ProbeTimeout time.Duration

	// StopTimeout is how long the command may take to end once a signal has told it
	// to; then it is killed. 0: as long as the service manager lets it.
	StopTimeout time.Duration

	// Drain has SIGTERM end the command only when Relay carries nothing any more: then
	// the command gets SIGHUP in its place. It is for `systemctl kill`, which sends
	// SIGTERM to all processes of a unit; a stop of the unit should come as another
	// signal (KillSignal=). A second SIGTERM is passed on as SIGINT, at once.
	Drain bool
	// Stopped, if not nil, reports whether a SIGTERM is that of a stop all the same: then
	// Drain waits for nothing. Exec passes no signal on before it returns.
	Stopped func(context.Context) bool
	// BlockTerm starts the command with SIGTERM blocked, so that the one of `systemctl
	// kill` does not reach it. All that the command starts inherits that.
	BlockTerm bool

	// Stderr, if not nil, gets what the command writes to its standard error, a line
	// with its end at a time; else standard error is shared. A line of more than
	// 64 KiB comes in several pieces, of which only the last has the end. Nothing is
	// left out. The calls come one after another from a goroutine of their own.
	Stderr func(piece string)

	// MemoryEvents is where the kernel counts what it kills for lack of memory: a
	// command that ends so leaves ENOMEM behind, as Notifier.Failed has it. Without
	// it nothing is known of that.
	MemoryEvents string

	// Relay, if not nil, serves inherited sockets once the command is ready.
	Relay *Relay
}

// flushBound is how long the last bytes of a command that has exited may take to
// reach the relay's clients.
const flushBound = time.Second

// forwarded signals go on to the command. SIGABRT is among them because it is
// the default WatchdogSignal=: it is the command whose stacks are of interest.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
}

// Exec runs a command as the main process of a Type=notify unit does: READY=1
// once it is ready, WATCHDOG=1 only while it is alive, STATUS= in words, signals
// passed on, stdin, stdout and stderr shared. It returns how the command ended;
// Exit makes that our own end. The error is not nil when the command could not
// be started, and systemd's name for that exit status is ExitExec.
//
// The command gets a process group of its own, so that it sees each signal once
// even when a terminal sends them to a whole group. It dies with us, however we
// die. ctx done means SIGTERM for it, so ctx must not itself be bound to the
// signals above: some programs take a second SIGTERM for impatience.
func Exec(ctx context.Context, n *Notifier, logger *slog.Logger, c Command) (syscall.WaitStatus, error) {
	// PR_SET_PDEATHSIG fires when the *thread* that forked ends. This one
	// lasts as long as we do.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)

	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = CommandEnv(os.Environ())
	said, err := newTalk(c.Stderr)
	if err != nil {
		return 0, fmt.Errorf("cannot read the standard error of %q: %w", c.Args[0], err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, said.file()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.Relay != nil {
		defer func() { _ = c.Relay.Close() }()
	}
	s := newSupervisor(n, logger, c)
	if err := start(cmd, c.BlockTerm); err != nil {
		said.close()
		return 0, fmt.Errorf("cannot start %q: %w", c.Args[0], cause(err))
	}

	s.kill = func() { s.killed.Store(true); _ = cmd.Process.Kill() }

	var tasks sync.WaitGroup
	probing, stopProbing := context.WithCancel(context.WithoutCancel(ctx))
	exited, markExited := context.WithCancel(context.WithoutCancel(ctx))
	tasks.Go(func() { s.supervise(probing, exited) })
	tasks.Go(said.run)
	tasks.Go(func() { _ = cmd.Wait(); said.end(); markExited() }) // the status is in ProcessState

	overdue := time.AfterFunc(math.MaxInt64, s.endLate)
	defer overdue.Stop()
	stopTimeout := sync.OnceFunc(func() {
		if c.StopTimeout > 0 {
			overdue.Reset(c.StopTimeout)
		}
	})
	end := func(sig os.Signal) {
		stopTimeout()
		// Signal fails only when the process has ended.
		_ = cmd.Process.Signal(sig)
		_ = cmd.Process.Signal(syscall.SIGCONT) // as systemd does: a stopped process ends, too
	}
	draining := false
	forward(ctx, exited, signals, func(sig os.Signal) {
		switch {
		case !stops(sig):
			_ = cmd.Process.Signal(sig)
		case sig == syscall.SIGTERM && c.Drain && !draining && !c.stopped(ctx):
			draining = true
			s.stopping("Stopping: what runs is finished") // a hang is still looked for
			tasks.Go(func() { s.drain(exited, func() { end(syscall.SIGHUP) }) })
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

func (c Command) stopped(ctx context.Context) bool { return c.Stopped != nil && c.Stopped(ctx) }

// start starts the command. A process begins with the signal mask of the thread that
// forked it; the caller has locked its own.
func start(cmd *exec.Cmd, blockTerm bool) error {
	if blockTerm {
		if err := maskTerm(unix.SIG_BLOCK); err != nil {
			return err
		}
		defer maskTerm(unix.SIG_UNBLOCK) //nolint:errcheck // what could be blocked can be unblocked
	}
	return cmd.Start()
}

// forward passes signals on until the command has exited.
func forward(ctx, exited context.Context, signals <-chan os.Signal, pass func(os.Signal)) {
	cancelled := ctx.Done()
	for {
		select {
		case <-exited.Done():
			return
		case sig := <-signals:
			pass(sig)
		case <-cancelled:
			cancelled = nil
			pass(syscall.SIGTERM)
		}
	}
}

// stops tells the signals that end a program from those that usually make it
// reload, rotate its logs or dump its state.
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
