package apikeys

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"codex-proxy/proxy/auth"
	"codex-proxy/workers/control"
)

// List prints the keys with their limits.
func (e *Editor) List(context.Context, string) error {
	_, keys, err := e.File.Read()
	if err != nil {
		return err
	}
	if keys.Empty() {
		fmt.Fprintln(e.Stderr, Keyless(control.Keys{Closed: keys.Closed()}))
		return nil
	}
	table := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tREQUESTS/MIN\tTOKENS/MIN\tTOKENS/DAY\tCONCURRENT\tMODELS\tACCOUNTS\tMAY CHOOSE\tREMOTES\tUNKNOWN")
	for _, key := range keys.All() {
		row := []string{key.Name}
		for _, name := range auth.LimitNames {
			value := key.Limits.Value(name)
			if value == "none" {
				value = "-"
			}
			row = append(row, value)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
