package apitest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
)

// Stream hears one response to its end, and writes it as the event stream that
// it would be without the socket.
func (k *Socket) Stream() string {
	k.t.Helper()
	var b strings.Builder
	for {
		_, data, err := k.Read(k.t.Context())
		require.NoError(k.t, err)
		kind := Read[Seen](k.t, string(data)).Type
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, data)
		if kind == "response.completed" {
			return b.String()
		}
	}
}
