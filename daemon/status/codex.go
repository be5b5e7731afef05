package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/probes"
)

// agentVersion is the version in the name with which a codex answers a handshake. The demo has none.
var agentVersion = lazyregexp.New(`^[^/]*/(\d+\.\d+\.\d+[0-9A-Za-z.-]*)`)

// writeCodex writes which codex runs in which workers, and the lines about the codex of the machine.
func writeCodex(w io.Writer, workers []probes.Worker, lines []string) {
	running := map[string][]string{}
	for _, worker := range workers {
		if worker.Handshake == nil {
			continue
		}
		if m := agentVersion.FindStringSubmatch(worker.Handshake.UserAgent); m != nil {
			running[m[1]] = append(running[m[1]], worker.Name)
		}
	}
	var page []string
	for _, version := range slices.Sorted(maps.Keys(running)) {
		page = append(page, fmt.Sprintf("codex %s runs in %s: %s", version, strings.Join(running[version], ", "),
			versions.Place(version)))
	}
	if page = append(page, lines...); len(page) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(page, "\n"))
	}
}
