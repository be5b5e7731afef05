package clienttool

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWireName(t *testing.T) {
	long := "mcp__" + strings.Repeat("a", 100)
	for _, tc := range []struct{ namespace, name, want string }{
		{"", "weather", "weather"},
		{"", "mcpx", "mcpx"},
		{"", "mcp", "client_mcp"},
		{"", "mcp__files__read", "client_mcp__files__read"},
		{"", "exec_command", "client_exec_command"},
		{"", "shell_command", "client_shell_command"},
		{"", "client_mcp__files__read", "client_client_mcp__files__read"},
		{"", "client_weather", "client_weather"},
		{"", strings.Repeat("a", 128), strings.Repeat("a", 128)},
		{"", long, "t_60b57979c8a08d3f_" + strings.Repeat("a", 45)},
		{"", "t_60b57979c8a08d3f_" + strings.Repeat("a", 45), shortName("client_t_60b57979c8a08d3f_" +
			strings.Repeat("a", 45))},
		{"ns", "f", "ns__f"},
		{"mcp__files", "read", "client_mcp__files__read"},
		{"mcp", "exec_command", "client_mcp__exec_command"},
	} {
		got := WireName(tc.namespace, tc.name)
		assert.Equal(t, tc.want, got, tc.name)
		assert.LessOrEqual(t, len(got), 128)
	}
}
