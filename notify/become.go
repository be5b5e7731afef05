package notify

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Become replaces this process by a program, which is looked up in PATH and inherits the files. It returns only if
// that is not possible; ExitExec is the exit status then.
func Become(args []string, files ...*os.File) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("cannot start %q: %w", args[0], cause(err))
	}
	for _, f := range files {
		// Without FD_CLOEXEC, the only flag of a descriptor (fcntl(2)).
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("cannot pass %s on: %w", f.Name(), err)
		}
	}
	return fmt.Errorf("cannot start %q: %w", args[0], unix.Exec(path, args, CommandEnv(os.Environ())))
}
