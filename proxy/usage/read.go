package usage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/sqlite"
)

// Groups are the columns by which usage can be summed up.
var Groups = []string{"hour", "day", "key", "model", "account"}

// Sum is one line of a report. The columns outside its groups are empty.
type Sum struct {
	Hour  string `json:"hour,omitempty"` // 2006-01-02T15, UTC
	Day   string `json:"day,omitempty"`  // 2006-01-02, UTC
	Key   string `json:"key,omitempty"`  // empty: requests without a key
	Model string `json:"model,omitempty"`
	// Account is empty also for usage that was counted without accounts, by an older program.
	Account string `json:"account,omitempty"`
	Counts
}

// Read sums up the usage in the database at path since a day, by some of Groups and in
// their order. It changes nothing, and works with and without a running daemon.
func Read(ctx context.Context, path string, since time.Time, by []string) ([]Sum, error) {
	db, err := sqlite.OpenReadOnly(ctx, path, schemas)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	source, err := sourceOf(ctx, db, by)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	rows, err := db.QueryContext(ctx, Query(by, source, "?"), dayOf(since))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	defer rows.Close()
	var sums []Sum
	for rows.Next() {
		var u Sum
		err := rows.Scan(&u.Hour, &u.Day, &u.Key, &u.Model, &u.Account,
			&u.Requests, &u.InputTokens, &u.CachedTokens, &u.OutputTokens, &u.ReasoningTokens)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		sums = append(sums, u)
	}
	return sums, rows.Err()
}

// Sums is Read of the usage that this store has written.
func (s *Store) Sums(ctx context.Context, since time.Time, by []string) ([]Sum, error) {
	if s.Path == "" {
		return nil, errors.New("usage is not written, as the service has no state directory")
	}
	return Read(ctx, s.Path, since, by)
}

// Check returns the reason why the service could not use the database at path, or nil.
func Check(ctx context.Context, path string) error { return sqlite.Check(ctx, path, schemas) }

// The tables of a query: of usage without accounts, and with them. The usage that is in
// the table of accounts is no part of the rest, which has no account.
const (
	byHour          = `(SELECT *, substr(hour, 1, 10) AS day FROM hour_usage)`
	withoutAccounts = `(SELECT *, '' AS account FROM usage)`
	withAccounts    = `(SELECT * FROM account_usage UNION ALL
		SELECT day, key, model, '', requests - ifnull(a_requests, 0), input_tokens - ifnull(a_input, 0),
			cached_tokens - ifnull(a_cached, 0), output_tokens - ifnull(a_output, 0),
			reasoning_tokens - ifnull(a_reasoning, 0)
		FROM usage LEFT JOIN (SELECT day, key, model, sum(requests) AS a_requests, sum(input_tokens) AS a_input,
			sum(cached_tokens) AS a_cached, sum(output_tokens) AS a_output, sum(reasoning_tokens) AS a_reasoning
			FROM account_usage GROUP BY day, key, model) USING (day, key, model)
		WHERE requests > ifnull(a_requests, 0) OR input_tokens > ifnull(a_input, 0)
			OR output_tokens > ifnull(a_output, 0))`
)

// sourceOf is the table of a query by these groups. A database that only an older program
// has written has no accounts and no hours.
func sourceOf(ctx context.Context, db *sql.DB, by []string) (string, error) {
	switch {
	case slices.Contains(by, "hour"):
		has, err := hasTable(ctx, db, "hour_usage")
		if err != nil || has {
			return byHour, err
		}
		return `(SELECT '' AS hour, '' AS account, * FROM usage WHERE false)`, nil
	case slices.Contains(by, "account"):
		has, err := hasTable(ctx, db, "account_usage")
		if err != nil || has {
			return withAccounts, err
		}
	}
	return withoutAccounts, nil
}

func hasTable(ctx context.Context, db *sql.DB, name string) (bool, error) {
	tables := 0
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = ?", name).Scan(&tables)
	return tables > 0, err
}

// Query has the columns of a Sum, from a source with the columns of by and of Counts, since the day in the parameter.
// by only selects among Groups, so no text of a user is in the query.
func Query(by []string, source, parameter string) string {
	var columns, groups []string
	for _, name := range Groups {
		if slices.Contains(by, name) {
			columns, groups = append(columns, name), append(groups, name)
		} else {
			columns = append(columns, "''")
		}
	}
	for _, name := range []string{"requests", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"} {
		columns = append(columns, "CAST(sum("+name+") AS bigint)") // PostgreSQL sums up in numeric
	}
	q := "SELECT " + strings.Join(columns, ", ") + " FROM " + source + " WHERE day >= " + parameter
	if len(groups) == 0 {
		return q + " HAVING count(*) > 0"
	}
	return q + " GROUP BY " + strings.Join(groups, ", ") + " ORDER BY " + strings.Join(groups, ", ")
}
