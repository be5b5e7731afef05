package journal

import (
	"fmt"
	"io"
)

// WriteCatalogue writes what `journalctl -x` shows of every event, in the format
// of https://systemd.io/CATALOG/.
func WriteCatalogue(w io.Writer) error {
	for _, e := range Events() {
		_, err := fmt.Fprintf(w, "-- %s\nSubject: %s\nDefined-By: codex-proxy\nDocumentation: man:codex-proxy(1)\n\n%s\n\n", e.ID, e.Subject, e.Help)
		if err != nil {
			return err
		}
	}
	return nil
}
