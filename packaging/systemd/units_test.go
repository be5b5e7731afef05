// Package systemd has the unit files, and this test of what docs/security.md says of them.
package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// services are the texts of the unit files of services, by name.
func services(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.service")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	units := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		units[file] = "\n" + string(text)
	}
	return units
}

// without are the units that lack a line, sorted.
func without(units map[string]string, line string) (names []string) {
	for name, text := range units {
		if !strings.Contains(text, "\n"+line) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// security is docs/security.md.
func security(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	return string(text)
}

// ownCodex is the unit of a user's own codex, which may do what the user may.
const ownCodex = "codex-user@.service"

// What the document says of every unit holds for every unit.
func TestEveryUnitIsConfined(t *testing.T) {
	units := services(t)
	delete(units, ownCodex)
	for _, line := range []string{"NoNewPrivileges=yes", "PrivateDevices=yes", "ProtectHome=", "ProtectSystem=strict",
		"ProtectKernelModules=yes", "ProtectClock=yes", "ProtectControlGroups=yes", "ProtectProc=invisible", "LimitCORE=0",
		"ReadOnlyPaths=/run", // ProtectProc= has systemd mount /run anew, without ProtectSystem=: /run/lock may be everybody's
	} {
		assert.Empty(t, without(units, line), line)
	}
}

// The exceptions stand in the table of the document, and no others.
func TestExceptionsAreInTheDocument(t *testing.T) {
	units, doc := services(t), security(t)
	delete(units, ownCodex)
	for line, row := range map[string]string{
		"MemoryDenyWriteExecute=yes": "| no `MemoryDenyWriteExecute=`, because compilers that run within it need such memory | ",
		"ProtectKernelTunables=yes":  "| no `ProtectKernelTunables=`, because codex's own sandbox mounts `/proc` | ",
	} {
		assert.Contains(t, doc, row+strings.Join(without(units, line), ", ")+" |")
	}
	for name, text := range units {
		_, capabilities, _ := strings.Cut(text, "\nCapabilityBoundingSet=")
		capabilities, _, _ = strings.Cut(capabilities, "\n")
		if capabilities == "" {
			assert.NotContains(t, doc, "| capabilities | "+name)
			continue
		}
		assert.Contains(t, doc, "| capabilities | "+name+": `"+strings.ReplaceAll(capabilities, " ", "` and `")+"`")
	}
}

// Every unit has a row in the table of exposures; those with the network are made of those without.
func TestEveryUnitHasARow(t *testing.T) {
	doc := security(t)
	for name := range services(t) {
		assert.Contains(t, doc, "\n| "+name+" | ", name)
	}
}

// A build gets of the kernel and of /proc what a session gets: packages are built with the same programs.
func TestBuildsAreConfinedAsSessions(t *testing.T) {
	units := services(t)
	lines := func(name string) (all []string) {
		for line := range strings.Lines(units[name]) {
			if strings.HasPrefix(line, "SystemCallFilter=") || strings.Contains(line, "/proc/") {
				all = append(all, line)
			}
		}
		return all
	}
	require.NotEmpty(t, lines("codex-session@.service"))
	assert.Equal(t, lines("codex-session@.service"), lines("codex-environment@.service"))
}
