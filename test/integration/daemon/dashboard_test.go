package daemon

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// panel is one panel of a Grafana dashboard; rows have no queries.
type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ UID string }
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		Expr, RefID string
		Datasource  struct{ UID string }
	}
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// expressions checks the form of a dashboard, as far as possible without Grafana, and
// returns the queries of each panel.
func expressions(t *testing.T, data []byte, uid string, more ...string) map[string][]string {
	t.Helper()
	var board struct {
		UID, Title    string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &board))
	assert.Equal(t, uid, board.UID)
	assert.GreaterOrEqual(t, board.SchemaVersion, 36, "that of Grafana 10")
	var variables []string
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	assert.Equal(t, append([]string{"datasource datasource", "instance query"}, more...), variables)

	exprs, ids, taken := map[string][]string{}, map[int]bool{}, map[[2]int]string{}
	for _, p := range board.Panels {
		assert.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				assert.Empty(t, taken[[2]int{x, y}], "%s lies on another panel", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		assert.NotContains(t, exprs, p.Title)
		assert.NotEmpty(t, p.FieldConfig.Defaults.Unit, p.Title)
		assert.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			exprs[p.Title] = append(exprs[p.Title], target.Expr)
		}
	}
	return exprs
}
