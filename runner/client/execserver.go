package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"codex-proxy/runner/api/wire"
)

const (
	// ExecServerPort is the port of an exec-server on the loopback of its session, which no other session has.
	ExecServerPort = 18900
	// OldestExecServer is the first minor version of codex 0.x with an exec-server that takes a token.
	OldestExecServer = 160
	// LeastToken is the length of the shortest token: its hash is no secret.
	LeastToken = 32
	// concurrentRequests is how many requests of one connection an exec-server works on. With one, its default, each
	// access to a file waits behind the command that runs.
	concurrentRequests = 16
)

// ExecServer is the command that has the codex at program execute commands, patches and accesses to files for a codex
// elsewhere, which sends the token. The command has the hash of the token alone: every process of the session could
// read a token that the exec-server can read.
func ExecServer(program, token string) wire.NewCommand {
	hash := sha256.Sum256([]byte(token))
	return wire.NewCommand{Args: []string{
		program, "exec-server", "--listen", fmt.Sprintf("ws://127.0.0.1:%d", ExecServerPort),
		"--concurrent-requests", strconv.Itoa(concurrentRequests),
		"--ws-auth", "capability-token", "--ws-token-sha256", hex.EncodeToString(hash[:]),
	}}
}
