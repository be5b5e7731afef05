package apikeys

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"codex-proxy/proxy/auth"
	"codex-proxy/workers/control"
)

// Rows are the keys with their limits.
func Rows(keys *auth.Keys) []control.Key {
	rows := []control.Key{}
	for _, key := range keys.All() {
		l := key.Limits
		rows = append(rows, control.Key{Name: key.Name, Limits: control.KeyLimits{
			RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, TokensPerDay: l.TokensPerDay,
			Concurrent: l.Concurrent, Models: l.Models, Accounts: l.Accounts, ChooseAccount: l.ChooseAccount,
			Remotes: l.Remotes, UnknownParameters: l.UnknownParameters, Console: l.Console,
		}})
	}
	return rows
}

// listJSON prints the keys of the file, with their use if the running service has them; or the keys of the database,
// with their use on all hosts.
func (e *Editor) listJSON(ctx context.Context, keys *auth.Keys) error {
	list := control.Keys{Count: len(keys.All()), File: string(e.File), Closed: keys.Closed() && keys.Empty(),
		Keys: Rows(keys)}
	running, err := control.NewClient(e.Socket).Keys(ctx)
	if err == nil && running.File == filepath.Clean(string(e.File)) {
		list.Required = running.Required
		for i := range list.Keys {
			list.Keys[i].Used = useOf(running, list.Keys[i].Name)
		}
	}
	if e.database != nil {
		if err := e.database.use(ctx, keys, list.Keys); err != nil {
			return err
		}
	}
	return json.NewEncoder(e.Stdout).Encode(list)
}

func useOf(running control.Keys, name string) *control.KeyUse {
	for _, key := range running.Keys {
		if key.Name == name {
			return key.Used
		}
	}
	return nil
}

// List prints the keys with their limits.
func (e *Editor) List(ctx context.Context, _ string) error {
	keys, err := e.Read(ctx)
	if err != nil {
		return err
	}
	if e.JSON {
		return e.listJSON(ctx, keys)
	}
	if keys.Empty() {
		fmt.Fprintln(e.Stderr, Keyless(control.Keys{Closed: keys.Closed()}))
		return nil
	}
	table := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tREQUESTS/MIN\tTOKENS/MIN\tTOKENS/DAY\tCONCURRENT\tMODELS\tACCOUNTS\tMAY CHOOSE\t"+
		"REMOTES\tUNKNOWN\tCONSOLE")
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
