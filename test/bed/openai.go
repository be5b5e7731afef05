package bed

import (
	"testing"
	"time"

	"codex-proxy/test/accountserver"
)

// OpenAI plays OpenAI's hosts inside a machine for one person: the login of codex, its queries of an account, and the
// Responses API, which the bed's model endpoint answers. codex runs as on a server; the names lead here, and the
// certificate of the test is trusted.
type OpenAI struct {
	*accountserver.Server
	T      *testing.T
	Person *accountserver.Account
}

const (
	// UserCode is what a person types to log a device in.
	UserCode = accountserver.UserCode
)

// StartOpenAI starts the hosts, and makes the workers trust them.
func StartOpenAI(b *Bed) *OpenAI {
	b.T.Helper()
	server := accountserver.New(b.Models, "person")
	o := &OpenAI{server, b.T, server.Account("person")}
	o.Person.Change(func(q *accountserver.Quota) {
		reset := time.Now().Add(72 * time.Minute)
		q.Windows[0].Used, q.Windows[0].Cost, q.Windows[0].Resets = 42, 1, reset
		q.Windows[1].Used, q.Windows[1].Resets = 7, reset
	})
	b.serveHosts(server)
	return o
}

// Decide sets whether the person at the browser approves the login.
func (o *OpenAI) Decide(yes bool) {
	if yes {
		o.Approve(o.Person.Name)
		return
	}
	o.Approve("")
}
