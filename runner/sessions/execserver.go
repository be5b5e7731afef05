package sessions

import (
	"fmt"
	"io"
	"os"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/client"
)

// maxToken bounds the file of a token, in bytes.
const maxToken = 4 << 10

// requireVersion runs its arguments, of which the first one is a codex, unless that is too old. An old one reports an
// unknown option.
const requireVersion = `found=$("$1" --version) || exit
found=${found##* }
case $found in
0.?.*|0.??.*|0.1[0-5]?.*)
	echo "codex $found has no exec-server that takes a token: install codex 0.%d or later" >&2
	exit 69 ;;
esac
exec "$@"`

// ExecServer returns the command that makes the codex at program the exec-server of a session, for clients with the
// token in a file.
func ExecServer(program, tokenFile string) (wire.NewCommand, error) {
	token, err := readToken(tokenFile)
	if err != nil {
		return wire.NewCommand{}, err
	}
	command := client.ExecServer(program, token)
	check := fmt.Sprintf(requireVersion, client.OldestExecServer)
	command.Args = append([]string{"/bin/sh", "-c", check, "exec-server"}, command.Args...)
	return command, nil
}

func readToken(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < client.LeastToken || len(text) > maxToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s has no token: write one line of at least %d random characters, as "+
			"`openssl rand -hex 32` prints", path, client.LeastToken)
	}
	return token, nil
}
