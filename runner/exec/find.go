package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

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
	return "", &stageError{session.NotFound,
		fmt.Errorf("cannot find the program %s in PATH=%s: install it, or name its "+
			"path", name, path)}
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
	if errors.Is(err, fs.ErrPermission) {
		return &stageError{session.NotExecutable, fmt.Errorf("cannot start %s: %w (is it a program, and executable?)",
			name, err)}
	}
	return &stageError{session.NotFound, fmt.Errorf("cannot find the program %s: %w", name, err)}
}
