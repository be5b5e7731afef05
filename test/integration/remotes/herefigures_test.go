package remotes

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
	"codex-proxy/test/modelserver"
)

// How long a bare terminal takes to its first paint, and is without its conversation after a kill of codex in
// mid-turn: a log, and no verdict.
func TestHereFigures(t *testing.T) { bed.Figures(t, testHereFigures) }

func testHereFigures(t *testing.T, suite string) {
	b := hereBed(t, suite)
	enableHere(b)
	took := map[string]bed.Sample{}
	firstPaints(b, took)
	kills(b, took)
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(took)) {
		t.Logf("%s: %s: %s", suite, name, took[name])
	}
	t.Logf("%s: the load of the machine at the end: %s", suite, load)
}

// painted starts codex in tmux, and prints after how many milliseconds its screen has something, and the prompt.
const painted = `began=$(date +%s%N)
ms() { echo $((($(date +%s%N) - began) / 1000000)); }
tmux="tmux -L paint -f /dev/null"
$tmux new-session -d -s paint -x 180 -y 60 su - alice -c "cd one && TERM=screen exec codex $1"
until $tmux capture-pane -p -t paint | grep -q '[^ ]'; do sleep 0.002; done
first=$(ms)
until $tmux capture-pane -p -t paint | grep -q 'Ask Codex'; do sleep 0.002; done
echo $first $(ms)
$tmux kill-server`

// firstPaints measures an own process of codex, the unit that runs, and the one that is asleep, in turn.
func firstPaints(b *bed.Bed, took map[string]bed.Sample) {
	b.T.Helper()
	for round := range figureRounds + 1 {
		for _, way := range []string{"asleep", "awake", "in its own process"} {
			option := ""
			switch way {
			case "asleep":
				b.MustRun(b.T, "systemctl", "stop", aliceUnit)
			case "in its own process":
				option = "--no-daemon"
			}
			out := strings.Fields(b.MustRun(b.T, "env", "LANG=C.UTF-8", "HOME=/root", "bash", "-c", painted, "bash", option))
			require.Len(b.T, out, 2)
			if round == 0 { // the files are read for the first time
				continue
			}
			for n, what := range []string{"the first paint", "the prompt"} {
				ms, err := strconv.Atoi(out[n])
				require.NoError(b.T, err)
				figure := "from the start to " + what + ", codex " + way
				took[figure] = append(took[figure], time.Duration(ms)*time.Millisecond)
			}
		}
	}
}

// kills measures the time from a kill of codex in mid-turn to the end of the turn on the screen.
func kills(b *bed.Bed, took map[string]bed.Sample) {
	t := b.T
	t.Helper()
	term := bareCodex(b, "one", "codex", "one")
	term.Until("Ask Codex")
	const figure = "from a kill of codex in mid-turn to the end of the turn on the screen"
	for n := range 5 {
		mark := fmt.Sprintf("kill-%d", n)
		require.NoError(t, b.Models.Add(modelserver.Script{Word: mark, Times: -1,
			Steps: []string{"text begins-" + mark, "gate " + mark, "text ends-" + mark}}))
		term.Enter(mark)
		term.Until("begins-" + mark)
		at := time.Now()
		killCodexOf(b)
		b.Models.Release(mark)
		term.Until("ends-" + mark)
		took[figure] = append(took[figure], time.Since(at))
		untilTurns(b, 0)
		bed.Pause(t.Context(), time.Minute) // a crash each minute: the delay before a restart does not grow
	}
}
