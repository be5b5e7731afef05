package accounts

import (
	"sync"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/accountserver"
	"codex-proxy/test/bed"
)

const (
	accountMail = "person@example.com"
)

// hang makes readings wait until the returned function is called.
func hang(o *bed.OpenAI) (goOn func()) {
	o.Person.Read(accountserver.Hanging)
	return sync.OnceFunc(func() { o.Person.Read(accountserver.Answered) })
}

// untilRead waits for a reading after so many.
func untilRead(o *bed.OpenAI, before int) {
	o.T.Helper()
	require.NoError(o.T, o.Wait(o.T.Context(), func() bool { return len(o.Person.Record().Readings) > before }))
}
