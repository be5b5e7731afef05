package holders

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// highest bounds the generations between a process and the top one of its server.
const highest = 16

// nameTop names the top process of the server instead of one that it has forked: the autovacuum launcher of a
// PostgreSQL may hold the data, and a signal to it does not end the server.
func (h *Holder) nameTop(proc string) {
	for range highest {
		parent, found := h.sameServer(proc)
		if !found {
			return
		}
		h.PID, h.Command = parent.PID, parent.Command
	}
}

// sameServer returns the parent, if that is a process of the same program in the same unit. A leader of a session with
// a terminal is the shell of a person, not a part of the server.
func (h *Holder) sameServer(proc string) (Holder, bool) {
	status, err := readStat(proc, h.PID)
	if err != nil || status.parent <= 1 {
		return Holder{}, false
	}
	parent := Holder{PID: status.parent}
	above, err := readStat(proc, parent.PID)
	if err != nil || above.session == parent.PID && above.terminal != 0 {
		return Holder{}, false
	}
	program, err := os.Stat(fmt.Sprintf("%s/%d/exe", proc, h.PID))
	other, otherErr := os.Stat(fmt.Sprintf("%s/%d/exe", proc, parent.PID))
	if err != nil || otherErr != nil || !os.SameFile(program, other) {
		return Holder{}, false
	}
	parent.describe(proc)
	return parent, parent.Unit == h.Unit
}

// stat has fields of /proc/PID/stat (proc_pid_stat(5)).
type stat struct{ parent, session, terminal int }

// readStat reads the fields after the name of the program, which is in parentheses and may contain some.
func readStat(proc string, pid int) (s stat, err error) {
	text, err := readStart(fmt.Sprintf("%s/%d/stat", proc, pid))
	if err != nil {
		return s, err
	}
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 5 {
		return s, fmt.Errorf("cannot read the parent of process %d", pid)
	}
	for i, to := range map[int]*int{1: &s.parent, 3: &s.session, 4: &s.terminal} {
		if *to, err = strconv.Atoi(fields[i]); err != nil {
			return s, err
		}
	}
	return s, nil
}
