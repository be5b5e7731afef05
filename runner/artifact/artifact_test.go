package artifact

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var generous = Limits{Bytes: 1 << 20, Count: 100}

// tree makes files with their paths as content, but for those that say otherwise.
func tree(t *testing.T, files ...string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	for _, file := range files {
		name, content, ok := strings.Cut(file, "=")
		if !ok {
			content = name
		}
		require.NoError(t, root.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, root.WriteFile(name, []byte(content), 0o644))
	}
	return root
}

func patterns(t *testing.T, texts ...string) (all []Pattern) {
	t.Helper()
	for _, text := range texts {
		p, err := Parse(text)
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

// collect returns the archive.
func collect(t *testing.T, root *os.Root, limits Limits, texts ...string) (archive []byte, missed error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "artifacts")
	file, err := os.Create(path)
	require.NoError(t, err)
	missed = Collect(t.Context(), root, patterns(t, texts...), file, limits)
	require.NoError(t, file.Close())
	archive, err = os.ReadFile(path)
	require.NoError(t, err)
	return archive, missed
}

func paths(files []File) (all []string) {
	for _, f := range files {
		all = append(all, f.Path)
	}
	return all
}

func TestPatterns(t *testing.T) {
	root := tree(t, "a.xml", "b.txt", "dist/x/y", "dist/z.xml", "deep/er/c.xml", ".git/config", "sub/.git/a.xml", "[x]")
	for _, c := range []struct {
		text string
		want []string
	}{
		{"*.xml", []string{"a.xml"}},
		{"**/*.xml", []string{"a.xml", "deep/er/c.xml", "dist/z.xml"}},
		{"dist", []string{"dist/x/y", "dist/z.xml"}},
		{"./dist/", []string{"dist/x/y", "dist/z.xml"}},
		{"dist/**", []string{"dist/x/y", "dist/z.xml"}},
		{"d*/*/?*", []string{"deep/er/c.xml", "dist/x/y"}},
		{`\[x\]`, []string{"[x]"}},
		{"none", nil},
		{".", []string{"[x]", "a.xml", "b.txt", "deep/er/c.xml", "dist/x/y", "dist/z.xml"}},
	} {
		archive, missed := collect(t, root, generous, c.text)
		require.NoError(t, missed)
		files, err := Read(bytes.NewReader(archive), int64(len(archive)), generous)
		require.NoError(t, err)
		assert.Equal(t, c.want, paths(files), c.text)
		for _, f := range files {
			assert.Equal(t, f.Path, string(archive[f.Offset:f.Offset+f.Bytes]))
			assert.Len(t, f.SHA256, 64)
		}
	}
	for text, want := range map[string]string{
		"": "is empty", "/etc/passwd": "leave out .. and the first /", "../x": "leave out .. and",
		"[": "close its brackets", "**/**/**": "more than two **", "a\x00": "NUL byte",
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// Links are not followed, and special files are not opened.
func TestNoLinks(t *testing.T) {
	root := tree(t, "file=x")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(root.Name(), "passwd")))
	require.NoError(t, os.Symlink("file", filepath.Join(root.Name(), "inside")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(root.Name(), "etc")))
	require.NoError(t, unix.Mkfifo(filepath.Join(root.Name(), "fifo"), 0o644))
	archive, missed := collect(t, root, generous, "**", "passwd", "etc/passwd", "fifo")
	require.NoError(t, missed)
	files, err := Read(bytes.NewReader(archive), int64(len(archive)), generous)
	require.NoError(t, err)
	assert.Equal(t, []string{"file"}, paths(files))
}

func TestLimits(t *testing.T) {
	root := tree(t, "a=12345", "b=123456789", "c=12345")
	for want, limits := range map[string]Limits{
		`files not kept: 1, first "b": the files are larger`: {Bytes: 10, Count: 9},
		`files not kept: 2, first "b": there are more files`: {Bytes: 1000, Count: 1},
		`files not kept: 3, first "a": the files are larger`: {Count: 3},
	} {
		archive, missed := collect(t, root, limits, "**")
		assert.ErrorContains(t, missed, want)
		files, err := Read(bytes.NewReader(archive), int64(len(archive)), limits)
		require.NoError(t, err)
		assert.Len(t, files, 3-int(want[len("files not kept: ")]-'0'))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorContains(t, Collect(ctx, root, patterns(t, "**"), nil, generous), "it took too long")
}

// Whatever the archive has, what is read is within it and within the limits.
func TestUntrustedArchives(t *testing.T) {
	archive, missed := collect(t, tree(t, "a=12345", "b=67890"), generous, "**")
	require.NoError(t, missed)
	for n := range archive { // the writer was killed
		files, err := Read(bytes.NewReader(archive[:n]), int64(n), generous)
		require.NoError(t, err)
		assert.Less(t, len(files), 2)
	}
	for _, damaged := range []string{
		"x\n", `{"path":"../a","bytes":1}` + "\nx", `{"path":"/a","bytes":0}` + "\n", `{"path":"a","bytes":-1}` + "\n",
		`{"path":"a","bytes":9223372036854775808}` + "\n", strings.Repeat("x", maxHeader+1), "null\n",
	} {
		files, err := Read(strings.NewReader(damaged), int64(len(damaged)), generous)
		assert.ErrorContains(t, err, "damaged at byte 0")
		assert.Empty(t, files)
	}
	many := strings.Repeat(`{"path":"a","bytes":0}`+"\n", 101)
	files, err := Read(strings.NewReader(many), int64(len(many)), generous)
	assert.ErrorContains(t, err, "more artifacts than")
	assert.Len(t, files, 100)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"path":"a","bytes":2}` + "\nab"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		files, _ := Read(bytes.NewReader(archive), int64(len(archive)), generous)
		for _, file := range files {
			_, err := io.ReadAll(io.NewSectionReader(bytes.NewReader(archive), file.Offset, file.Bytes))
			require.NoError(t, err)
			require.LessOrEqual(t, file.Offset+file.Bytes, int64(len(archive)))
		}
	})
}

func TestKinds(t *testing.T) {
	for content, want := range map[string]Kind{
		"report.xml=<?xml version=\"1.0\"?>\n<!-- c -->\n<testsuites><testsuite/>": JUnit,
		"r.xml=<testsuite name=\"a\">":                                             JUnit,
		"pom.xml=<project>":                                                        Plain,
		"broken.xml=<<":                                                            Plain,
		"empty.xml=":                                                               Plain,
		"coverage.xml=<coverage line-rate=1>":                                      Coverage,
		"jacoco.xml=<!DOCTYPE report PUBLIC \"-//JACOCO//DTD Report 1.1//EN\" \"report.dtd\"><report>": Coverage,
		"lcov.info=TN:\nSF:a.c":                 Coverage,
		"cover.out=mode: set\na.go:1.1,2.2 1 1": Coverage,
		".coverage=SQLite format 3":             Coverage,
		"coverage-final.json={}":                Coverage,
		"coverage.txt=none":                     Plain,
	} {
		archive, missed := collect(t, tree(t, content), generous, "**")
		require.NoError(t, missed)
		files, err := Read(bytes.NewReader(archive), int64(len(archive)), generous)
		require.NoError(t, err)
		assert.Equal(t, want, files[0].Kind, fmt.Sprint(content))
	}
}
