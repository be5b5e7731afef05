package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/session"
)

// find returns the path of a program: name itself if it has a slash, from dir if it is relative, or the first
// executable file of that name in the directories of path (execvp(3)). The error is a *stageError.
func find(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		program := name
		if !filepath.IsAbs(program) {
			program = filepath.Join(dir, program)
		}
		if err := executable(program); err != nil {
			return "", unusable(name, err)
		}
		return program, nil
	}
	denied := error(nil)
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) { // also "": only a name with a slash finds a program of the workspace
			continue
		}
		program := filepath.Join(place, name)
		err := executable(program)
		if err == nil {
			return program, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", unusable(name, denied)
	}
	if isLine(name) {
		return "", noShell(name)
	}
	return "", &stageError{session.NotFound,
		fmt.Errorf("cannot find the program %s in PATH=%s: install it, or name its "+
			"path", name, path)}
}

// isLine reports whether name seems to be a line for a shell and no program.
func isLine(name string) bool { return strings.ContainsAny(name, " \t\n;&|<>$`") }

func noShell(line string) error {
	return &stageError{session.NotFound, fmt.Errorf("cannot find the program %q, which is a line for a shell: give it "+
		"to one, as the three words sh, -c and the line", line)}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "execute", Path: path, Err: unix.EACCES}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "execute", Path: path, Err: err}
	}
	return nil
}

func unusable(name string, err error) error {
	if above := sandbox.Home(name); above != "" {
		return &stageError{session.NotFound,
			fmt.Errorf("cannot find the program %s: sessions do not see %s, but for the "+
				"toolchains of [sandbox] in runner.toml", name, above)}
	}
	if errors.Is(err, fs.ErrPermission) {
		return &stageError{session.NotExecutable, fmt.Errorf("cannot start %s: %w (is it a program, and executable?)",
			name, err)}
	}
	if isLine(name) {
		return noShell(name)
	}
	return &stageError{session.NotFound, fmt.Errorf("cannot find the program %s: %w", name, err)}
}

// programs finds out where the sandbox has programs.
func (s *Shim) programs(spec *session.Spec) (sandbox.Programs, error) {
	p := sandbox.Programs{Usual: variable(s.Environ, "PATH")}
	if spec.Sandbox != nil {
		p.First = spec.Sandbox.Path
	}
	if s.Toolchains == "" {
		return p, nil
	}
	var err error
	p.Toolchains, err = sandbox.ReadList(s.Toolchains)
	return p, err
}

// given returns the variables that every command finds in its sandbox.
func given(p sandbox.Programs, spec *session.Spec) map[string]string {
	env := p.Env()
	env["TERM"], env["EMAIL"] = "dumb", email(spec.Owner)
	if spec.Sandbox != nil {
		maps.Copy(env, spec.Sandbox.Env)
	}
	env["PATH"] = p.Path()
	return env
}

// unfound adds to the error about a program the toolchains that it may be in.
func (l *Launch) unfound(err error) error {
	at, ok := errors.AsType[*stageError](err)
	if faults := l.Programs.Faults(); ok && faults != "" {
		return &stageError{at.stage, fmt.Errorf("%w (%s)", at.err, faults)}
	}
	return err
}

// untooled is unfound for the tools of environments.
func (l *Launch) untooled(err error) error {
	_, missing := errors.AsType[*environment.MissingToolError](err)
	if faults := l.Programs.Faults(); missing && faults != "" {
		return fmt.Errorf("%w (%s)", err, faults)
	}
	return err
}

// email is the address of a user on this host. git(1) takes it for a commit if nothing else names one, with the name of
// the session's user in passwd(5).
func email(uid uint32) string {
	name := "session"
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return name + "@" + host
}
