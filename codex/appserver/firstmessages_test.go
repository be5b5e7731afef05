package appserver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
	"codex-proxy/codex/versions"
	"codex-proxy/test/nightly"
)

// The first message of a thread asks the model once, in a thread that was started for it and in one from before: in
// `make nightly` 100 of them, and 100 in package remotes. An item that reached codex after its turn began would make it
// ask once more.
func testFirstMessages(t *testing.T, l *live) {
	for _, prestart := range []int{0, 16} {
		u := l.plays(helloWorld)
		c := l.connect(t, appserver.Options{Prestart: prestart})
		messages := 10
		if l.minor == versions.Tested {
			messages = nightly.Or(50, 20)
		}
		var all errgroup.Group
		all.SetLimit(4)
		for n := range messages {
			all.Go(func() error {
				r := liveHello()
				r.Items = []history.Item{history.TextMessage("user", fmt.Sprint("message ", n))}
				turn, err := c.StartTurn(bound(t), r)
				if err != nil {
					return err
				}
				o, err := collect(bound(t), turn)
				assert.Equal(t, "Hello world", o.text)
				return errors.Join(err, turn.Close(bound(t)))
			})
		}
		require.NoError(t, all.Wait())
		assert.Len(t, u.requests(), messages, "%d threads before their turns", prestart)
	}
}
