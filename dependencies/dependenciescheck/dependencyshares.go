package dependenciescheck

import (
	"fmt"
	"strings"

	"codex-proxy/internal/checkup"
)

// sharedPorts finds ports that two dependencies have: the second one to start is refused.
func (r *room) sharedPorts() []checkup.Finding {
	return r.shared("port", func(d dependent) []string {
		var ports []string
		for _, port := range d.file.Ports {
			ports = append(ports, fmt.Sprint(port))
		}
		return ports
	}, "change ports and the command in the file of one, or remove it: codex-proxy dependencies remove NAME")
}

// sharedLocks finds lock files that two dependencies have. Dependencies with the same data share one on purpose: one of
// them runs at a time.
func (r *room) sharedLocks() []checkup.Finding {
	return r.shared("lock", func(d dependent) []string { return []string{d.file.Lock} },
		"systemctl disable --now one of them; with data of its own, remove lock from its file")
}

// shared finds the values that two dependencies share. It is a failure if both are to run.
func (r *room) shared(what string, of func(dependent) []string, remedy string) []checkup.Finding {
	var found []checkup.Finding
	users := map[string][]dependent{}
	var inOrder []string
	for _, d := range r.all {
		if d.file == nil {
			continue
		}
		for _, thing := range of(d) {
			if len(users[thing]) == 0 {
				inOrder = append(inOrder, thing)
			}
			users[thing] = append(users[thing], d)
		}
	}
	for _, thing := range inOrder {
		if len(users[thing]) > 1 {
			found = append(found, r.judgeShared(what+" "+thing, users[thing], remedy))
		}
	}
	return found
}

func (r *room) judgeShared(thing string, users []dependent, remedy string) checkup.Finding {
	var names []string
	wanted := 0
	for _, d := range users {
		names = append(names, d.name)
		if unit := r.Units[d.unit()]; len(d.needs) > 0 || unit.FileState == "enabled" || unit.Active() {
			wanted++
		}
	}
	detail := fmt.Sprintf("have the same %s: only one of them can run", thing)
	subject := "dependencies " + strings.Join(names, ", ")
	if wanted > 1 {
		return checkup.Failure(subject, detail, remedy)
	}
	return checkup.Warning(subject, detail, remedy)
}
