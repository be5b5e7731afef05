package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/logs"
	"codex-proxy/runner/paths"
)

// inherited are the variables that a command inherits from its unit. All others are about the unit's main process.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "CREDENTIALS_DIRECTORY"}

// variables returns the variables of a command, sorted: the inherited ones of environ, and the added ones, of which the
// last precede.
func variables(environ []string, added ...map[string]string) []string {
	env := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(inherited, name) {
			env[name] = value
		}
	}
	for _, more := range added {
		maps.Copy(env, more)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// variable returns the value of name in env, or "".
func variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// with returns env with another value of name.
func with(env []string, name, value string) []string {
	other := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") })
	return append(other, name+"="+value)
}

// readSecrets returns the secrets of the session, to be hidden in its log; nil without secrets.
func readSecrets(credentials string) (*logs.Secrets, error) {
	if credentials == "" {
		return logs.NewSecrets(nil)
	}
	values := map[string][]byte{}
	entries, err := os.ReadDir(credentials)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secrets: %w", err)
	}
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), paths.CredentialPrefix)
		if !ok {
			continue
		}
		value, err := fs.ReadFile(os.DirFS(credentials), filepath.Base(entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("cannot read the secret %s: %w", name, err)
		}
		values[name] = value
	}
	return logs.NewSecrets(values)
}

// commandScore is the oom_score_adj of the command: the kernel kills it before this process, which has to report it
// (proc_pid_oom_score_adj(5)).
const commandScore = 500

// Hide keeps the processes of the command, which have the same user, from the memory and the open files of this one:
// it is not dumpable any more (PR_SET_DUMPABLE of prctl(2)). It is to be called first of all. It returns the file of
// this process's oom_score_adj, for Shim.Score, as only root can open it afterwards.
func Hide() (score *os.File, err error) {
	score, err = os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot hide from other processes: %w", err), score.Close())
	}
	return score, nil
}

// inheritance has the OOM score and the file limit of a command. This process has them only between set and restore.
type inheritance struct {
	score    *os.File // nil leaves the score as it is
	fileSize int64    // bytes; 0 leaves the limit as it is

	oldScore []byte
	oldLimit unix.Rlimit
}

func (i *inheritance) set() error {
	if i.score != nil {
		i.oldScore = make([]byte, 16)
		n, err := i.score.ReadAt(i.oldScore, 0)
		if n == 0 {
			return err
		}
		i.oldScore = i.oldScore[:n]
		if _, err := i.score.WriteAt([]byte(strconv.Itoa(commandScore)), 0); err != nil {
			return err
		}
	}
	if i.fileSize == 0 {
		return nil
	}
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &i.oldLimit); err != nil {
		return err
	}
	// This process could not restore its hard limit: bound lowers the hard limit of the command.
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(i.fileSize), Max: i.oldLimit.Max})
}

// restore may lower the score again, as it is not below the one that a privileged process has set.
func (i *inheritance) restore() error {
	var errs []error
	if i.oldScore != nil {
		_, err := i.score.WriteAt(i.oldScore, 0)
		errs = append(errs, err)
	}
	if i.oldLimit.Max != 0 {
		errs = append(errs, unix.Setrlimit(unix.RLIMIT_FSIZE, &i.oldLimit))
	}
	return errors.Join(errs...)
}

// bound keeps the running command from raising its limit.
func (i *inheritance) bound(pid int) error {
	if i.fileSize == 0 {
		return nil
	}
	limit := &unix.Rlimit{Cur: uint64(i.fileSize), Max: uint64(i.fileSize)}
	err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, limit, nil)
	if errors.Is(err, unix.ESRCH) { // it has ended
		return nil
	}
	return err
}
