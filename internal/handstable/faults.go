package handstable

import (
	"fmt"
	"os"
	"os/user"

	"codex-proxy/internal/reach"
)

// Faults are the missing conditions for a session of this machine's codex-runner, by the key at fault. The program that
// asks for the session has the rights of an account; nil: they are unknown. remedy follows a lack of rights.
func (h *Hands) Faults(as *reach.Account, remedy string) map[string]error {
	faults := map[string]error{}
	if _, err := user.LookupGroup(Group); err != nil {
		faults["hands.runner"] = fmt.Errorf("there is no group %q: install codex-runner on this machine", Group)
	}
	dir := h.RepoDirectory()
	if dir == "" || as == nil {
		return faults
	}
	const reads = 4
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		faults["hands.repo"] = fmt.Errorf("there is no directory %s: make it, or name another one", dir)
	} else if err := reach.Check(*as, dir, reads); err != nil {
		faults["hands.repo"] = fmt.Errorf("%w: %s", err, remedy)
	}
	return faults
}
