package eventlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// listed is how many names of files are read at a time.
const listed = 1000

// Sweep removes the remains of a killed process: its lock, and each log that no response has, as keep reports. A
// response has its log before there is a file.
func (l *Logs) Sweep(keep func(id string) (bool, error)) error {
	dir, err := os.Open(l.dir)
	if err != nil {
		return fmt.Errorf("cannot look for left events: %w", err)
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(listed)
		for _, name := range names {
			if err := l.sweep(name, keep); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot look for left events: %w", err)
		}
	}
}

func (l *Logs) sweep(name string, keep func(id string) (bool, error)) error {
	if strings.HasPrefix(name, processPrefix) {
		l.Forget(name)
		return nil
	}
	kept, err := keep(name)
	if err != nil || kept {
		return err
	}
	return l.Remove(name)
}
