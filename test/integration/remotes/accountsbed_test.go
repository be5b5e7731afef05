package remotes

import (
	"codex-proxy/test/bed"
)

// logInAgain replaces the login of a worker that has run, and returns the unit that starts with it. The file keeps its
// owner.
func logInAgain(a *bed.AccountsBed, worker string) (unit string, err error) {
	account := a.Server.Account(worker)
	account.Validate()
	home, unit := "/var/lib/codex-worker/", "codex-worker@"+worker+".service"
	if bed.OneProcess() {
		home, unit = "/var/lib/codex-login/", "codex-login@"+worker+".service"
	}
	return unit, a.WriteFile(home+worker+"/auth.json", account.Login(), 0o600)
}
