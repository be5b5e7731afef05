package rooms

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of CONTRIBUTING.md anew")

const top = "../.."

// perPackage returns the rules that list what one package may import.
func perPackage(t *testing.T) map[string]Rule {
	t.Helper()
	all, err := Rules(top)
	require.NoError(t, err)
	rules := map[string]Rule{}
	for name, rule := range all {
		if name != unlisted && len(rule.Deny) == 1 && rule.Deny[0].Package == strings.TrimSuffix(module, "/") {
			rules[name] = rule
		}
	}
	require.NotEmpty(t, rules)
	return rules
}

// TestRules has one rule for each package, for its own files, and none for a
// package that does not exist.
func TestRules(t *testing.T) {
	rooms, err := Rooms(top)
	require.NoError(t, err)
	all, err := Rules(top)
	require.NoError(t, err)
	rules, listed := perPackage(t), []string{"$all", "!$test", "!**/test/**"}
	for _, r := range rooms {
		rule, ok := rules[r.Path]
		if !assert.True(t, ok, "add a rule %s to depguard in .golangci.yml, as the other packages have", r.Path) {
			continue
		}
		files := "**/" + r.Path + "/*.go"
		assert.Equal(t, []string{files, "!$test"}, rule.Files, "the rule %s is for other files", r.Path)
		assert.Equal(t, "lax", rule.Mode, "the mode of the rule %s", r.Path)
		listed = append(listed, "!"+files)
		delete(rules, r.Path)
	}
	assert.Empty(t, rules, "these rules of depguard are for packages that do not exist")
	assert.ElementsMatch(t, listed, all[unlisted].Files, "the rule %s is for all packages without a rule", unlisted)
}

// TestArrows has each rule allow what its package imports, and nothing else.
func TestArrows(t *testing.T) {
	rooms, err := Rooms(top)
	require.NoError(t, err)
	rules := perPackage(t)
	for _, r := range rooms {
		allowed := rules[r.Path].Allows()
		for _, path := range r.Imports {
			assert.Contains(t, allowed, path, "the rule %s of depguard does not allow an import", r.Path)
		}
		for _, path := range allowed {
			assert.True(t, slices.Contains(r.Imports, path), "the rule %s allows %s, which it does not import", r.Path, path)
		}
	}
}

// TestTable has the table in CONTRIBUTING.md.
func TestTable(t *testing.T) {
	rooms, err := Rooms(top)
	require.NoError(t, err)
	const file, begin, end = top + "/CONTRIBUTING.md", "<!-- rooms: go test ./test/rooms -update -->\n", "<!-- /rooms -->\n"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), begin)
	require.True(t, ok, "CONTRIBUTING.md has no line %q", begin)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "CONTRIBUTING.md has no line %q", end)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+Table(rooms)+end+after), 0o644))
		return
	}
	assert.Equal(t, Table(rooms), table, "write it anew: go test ./test/rooms -update")
}
