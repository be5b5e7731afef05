package outcome

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// text is the sentence for people.
func (o *Outcome) text(detail string) string {
	switch o.Word {
	case Succeeded:
		return "The command succeeded."
	case Failed:
		return fmt.Sprintf("The command failed with status %d.", o.Status)
	case Signaled:
		return o.signalText()
	case TimedOut:
		return "The command ran longer than its time and was ended; --timeout gives it more."
	case OutOfMemory:
		return "The command ran out of memory, and the kernel killed one of its processes; --memory gives it more."
	case TaskLimit:
		return "The command ran into its limit of processes and threads; --tasks gives it more."
	case OutputLimit:
		return "The command wrote more output than it may and was ended; --output-limit gives it more."
	case DiskFull:
		return "The command was ended because a disk or its share of it is full" + because(detail) +
			"; remove files, or give it more with --disk."
	case Cancelled:
		return "The command was cancelled by " + o.CancelledBy + "."
	case PatchRejected:
		return "The patch was rejected, and the command not started" + because(detail) + "."
	case WorkspaceFailed:
		return "The workspace could not be made ready, and the command not started" + because(detail) + "."
	case EnvironmentFailed:
		return "The environment could not be made ready, and the command not started" + because(detail) + "."
	case CommandNotFound:
		return "The command could not be started" + because(detail) + "."
	default:
		return "The end of the command is unknown" + because(detail) + "; run it again."
	}
}

func because(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

func (o *Outcome) signalText() string {
	name := unix.SignalName(unix.Signal(o.Signal))
	if name == "" {
		name = fmt.Sprintf("signal %d", o.Signal) // a real-time signal
	}
	text := "The command was killed by " + name
	if o.Core {
		text += " and dumped core"
	}
	if unix.Signal(o.Signal) == unix.SIGXFSZ {
		text += ": it wrote a file larger than it may; --file-size gives it more"
	}
	return text + "."
}
