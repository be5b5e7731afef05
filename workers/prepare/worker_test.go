package prepare

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/internal/cli"
	"codex-proxy/workers/codexhome"
)

func TestOnlyOperatorsFaultsEndRestarts(t *testing.T) {
	assert.Equal(t, cli.TempFail, Status(fmt.Errorf("slow: %w", codexhome.ErrRetry)))
	assert.Equal(t, cli.Config, Status(fmt.Errorf("bad: %w", &codexhome.Problem{Text: "x"})))
	assert.Equal(t, cli.Failure, Status(os.ErrPermission))
}
