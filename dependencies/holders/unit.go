package holders

import "strings"

// unitOf returns the system's unit of a process from its list of control groups (cgroups(7)): systemd gives each
// service and scope a group of its own, below the groups of slices. It is empty for a process outside of all units.
func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		// systemd's own hierarchy: version 2, or the named one of version 1.
		path, v2 := strings.CutPrefix(line, "0::")
		_, v1Path, v1 := strings.Cut(line, ":name=systemd:")
		if v1 {
			path = v1Path
		}
		if !v1 && !v2 {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSpace(path), "/") {
			// systemd begins a name that the kernel uses with _.
			if name := strings.TrimPrefix(part, "_"); isUnit(name) {
				return name
			}
		}
	}
	return ""
}

func isService(name string) bool { return strings.HasSuffix(name, ".service") }

func isUnit(name string) bool {
	return isService(name) || strings.HasSuffix(name, ".scope") ||
		strings.HasSuffix(name, ".socket") || strings.HasSuffix(name, ".mount") || strings.HasSuffix(name, ".swap")
}
