package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"codex-proxy/internal/sqlite"
)

// Groups are the columns by which usage can be summed up.
var Groups = []string{"day", "key", "model"}

// Sum is one line of a report. The columns outside its groups are empty.
type Sum struct {
	Day   string `json:"day,omitempty"` // 2006-01-02, UTC
	Key   string `json:"key,omitempty"` // empty: requests without a key
	Model string `json:"model,omitempty"`
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
	rows, err := db.QueryContext(ctx, query(by), dayOf(since))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	defer rows.Close()
	var sums []Sum
	for rows.Next() {
		var u Sum
		err := rows.Scan(&u.Day, &u.Key, &u.Model,
			&u.Requests, &u.InputTokens, &u.CachedTokens, &u.OutputTokens, &u.ReasoningTokens)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		sums = append(sums, u)
	}
	return sums, rows.Err()
}

// Check returns the reason why the service could not use the database at path, or nil.
func Check(ctx context.Context, path string) error { return sqlite.Check(ctx, path, schemas) }

// query has the columns of a Sum. by only selects among Groups, so no text of a caller
// is in the query.
func query(by []string) string {
	var columns, groups []string
	for _, name := range Groups {
		if slices.Contains(by, name) {
			columns, groups = append(columns, name), append(groups, name)
		} else {
			columns = append(columns, "''")
		}
	}
	q := "SELECT " + strings.Join(columns, ", ") + `, sum(requests), sum(input_tokens), sum(cached_tokens),
		sum(output_tokens), sum(reasoning_tokens) FROM usage WHERE day >= ?`
	if len(groups) == 0 {
		return q + " HAVING count(*) > 0"
	}
	return q + " GROUP BY " + strings.Join(groups, ", ") + " ORDER BY " + strings.Join(groups, ", ")
}
