package remotes

import (
	"codex-proxy/test/bed"
)

// logInAgain replaces the login of a worker that has run, and starts it with that. The file keeps its owner.
func logInAgain(a *bed.AccountsBed, worker string) error {
	account := a.Server.Account(worker)
	account.Validate()
	return a.WriteFile("/var/lib/codex-worker/"+worker+"/auth.json", account.Login(), 0o600)
}
