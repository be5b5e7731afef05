package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/machine"
)

// accountList is the JSON of `codex-proxy accounts list`.
type accountList struct {
	Accounts []struct {
		Name, Login, Plan, Email, Error string
		ActiveState                     string `json:"active_state"`
		Limits                          []struct {
			Window    string
			UsedRatio float64 `json:"used_ratio"`
			ResetsAt  string  `json:"resets_at"`
		}
	}
}

// ListAccounts is `codex-proxy accounts list --json`.
func ListAccounts(b *Bed) accountList {
	b.T.Helper()
	var l accountList
	out := b.MustRun(b.T, "codex-proxy", "accounts", "list", "--json")
	require.NoError(b.T, json.Unmarshal([]byte(out), &l), out)
	return l
}

// AccountRow is what `codex-proxy accounts list` shows of a worker: its state, and then each label with its words, with one
// space between all words.
func AccountRow(b *Bed, worker string) string {
	b.T.Helper()
	blocks := strings.Split(b.MustRun(b.T, "codex-proxy", "accounts", "list"), "\n\n")
	for _, block := range blocks {
		if words := strings.Fields(block); len(words) > 0 && words[0] == worker {
			return strings.Join(words[1:], " ")
		}
	}
	return ""
}

// LogIn logs a worker in with an API key, and returns the output.
func LogIn(b *Bed, worker, key string) string {
	b.T.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(b.T.Context(), 2*Bound)
	defer cancel()
	err := b.Exec(ctx, machine.Exec{Args: []string{"codex-proxy", "accounts", "login", worker, "--with-api-key"},
		Stdin: strings.NewReader(key + "\n"), Stdout: &out, Stderr: &out})
	require.NoError(b.T, err, out.String())
	return out.String()
}
