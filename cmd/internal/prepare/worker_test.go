package prepare

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/cmd/internal/cli"
	"codex-proxy/cmd/internal/codexhome"
)

func TestOnlyOperatorsFaultsEndRestarts(t *testing.T) {
	assert.Equal(t, cli.TempFail, prepareStatus(fmt.Errorf("slow: %w", codexhome.ErrRetry)))
	assert.Equal(t, cli.Config, prepareStatus(fmt.Errorf("bad: %w", &codexhome.Problem{Text: "x"})))
	assert.Equal(t, cli.Failure, prepareStatus(os.ErrPermission))
}
