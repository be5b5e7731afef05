package patch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const hunkOfX = "@@ -1 +1 @@\n-a\n+b\n"

func added(target string) string {
	return "@@ -0,0 +1 @@\n+" + target + "\n\\ No newline at end of file\n"
}

func plain(before, after string) string { return "--- " + before + "\n+++ " + after + "\n" + hunkOfX }

func newLink(name, target string) string {
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode 120000\n--- /dev/null\n+++ b/%[1]s\n%[2]s", name, added(target))
}

func TestParse(t *testing.T) {
	p, err := Parse([]byte("text\ndiff --git a/x b/y\nold mode 100644\nnew mode 100755\nsimilarity index 80%\n" +
		"rename from x\nrename to y\nindex 1..2\n--- a/x\n+++ b/y\n@@ -1,2 +1,2 @@ func\n a\n-b\n+c\n@@ -9 +9,0 @@\n-d\n" + plain("a/z", "b/z")))
	require.NoError(t, err)
	assert.Equal(t, []File{
		{Old: "x", New: "y", OldMode: "100644", NewMode: "100755", Line: 2, Hunks: []Hunk{
			{Line: 11, Header: "@@ -1,2 +1,2 @@ func", OldStart: 1, OldLines: 2, NewStart: 1, NewLines: 2, added: []string{"c"}},
			{Line: 15, Header: "@@ -9 +9,0 @@", OldStart: 9, OldLines: 1, NewStart: 9},
		}},
		{Old: "z", New: "z", Line: 17, Hunks: []Hunk{
			{Line: 19, Header: "@@ -1 +1 @@", OldStart: 1, OldLines: 1, NewStart: 1, NewLines: 1, added: []string{"b"}},
		}},
	}, p.Files)
	assert.Equal(t, "y", p.Files[0].Path())
}

func TestRefusedPatches(t *testing.T) {
	const git, byGit = "diff --git a/x b/x\n", "make the patch with `git diff`"
	for name, c := range map[string]struct {
		text   string
		reason Reason
		want   string // part of the error
	}{
		"nothing":              {"", Empty, "the patch: it changes no file: " + byGit},
		"text":                 {"hello\n", Empty, "changes no file"},
		"too long":             {strings.Repeat("x", MaxBytes+1), TooLarge, "it has 16777217 bytes, more than 16777216"},
		"too many files":       {strings.Repeat(plain("a/x", "b/x"), MaxFiles+1), TooLarge, "it has 10001 files, more than 10000"},
		"up":                   {plain("a/../x", "b/../x"), LeavesTree, `line 1 of the patch, file "../x": it is outside of the tree: use paths inside`},
		"up, within":           {plain("a/y/../../x", "b/y/../../x"), LeavesTree, "outside of the tree"},
		"up, quoted":           {plain(`"a/\056./x"`, `"b/\056./x"`), LeavesTree, "outside of the tree"},
		"absolute":             {plain("a//etc/passwd", "b//etc/passwd"), LeavesTree, "outside of the tree"},
		"a rename up":          {git + "rename from x\nrename to ../x\n", LeavesTree, "outside of the tree"},
		"a rename to absolute": {git + "rename from x\nrename to /etc/x\n", LeavesTree, "outside of the tree"},
		"git":                  {plain("a/.git/config", "b/.git/config"), TouchesGit, `file ".git/config": it belongs to git, not to the tree: leave .git out`},
		"git in capitals":      {plain("a/.Git/x", "b/.Git/x"), TouchesGit, "belongs to git"},
		"git of a submodule":   {plain("a/sub/.git/hooks/x", "b/sub/.git/hooks/x"), TouchesGit, "belongs to git"},
		"a rename into git":    {git + "rename from x\nrename to .git/hooks/post-checkout\n", TouchesGit, "belongs to git"},
		"a removed .git":       {"--- a/.git/HEAD\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", TouchesGit, "belongs to git"},
		"link: absolute":       {newLink("l", "/etc/passwd"), LinkLeaves, `line 5 of the patch, file "l": it would be a symbolic link to "/etc/passwd", which is outside`},
		"link: up":             {newLink("l", "../x"), LinkLeaves, "outside"},
		"link: too far up":     {newLink("a/b/l", "../../../x"), LinkLeaves, "outside"},
		"link: up later":       {newLink("a/b/l", "x/../../y"), LinkLeaves, "outside"},
		"link: into git":       {newLink("l", ".git/hooks"), LinkLeaves, "outside"},
		"link: changed":        {git + "index 1..2 120000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+/b\n", LinkLeaves, "outside"},
		"link: two lines":      {git + "new file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+..\n+x\n", Malformed, "one line"},
		"link: context":        {git + "index 1..2 120000\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n a\n+b\n", Malformed, "one line"},
		"link: from a file":    {git + "old mode 100644\nnew mode 120000\n--- a/x\n+++ b/x\n" + hunkOfX, Malformed, "it turns a file into a symbolic link"},
		"a submodule":          {git + "index 1..2 160000\n--- a/x\n+++ b/x\n" + hunkOfX, Unsupported, "it changes a submodule: commit"},
		"a device":             {git + "new file mode 060000\n", Unsupported, `no file of a tree has the mode "060000"`},
		"two modes":            {git + "new mode 100644\nindex 1..2 100755\n", Malformed, "it has two modes: 100644 and 100755"},
		"binary, cut off":      {git + "index 1..2 100644\nGIT binary patch\nliteral 1\n", Malformed, `line 5 of the patch, file "x": the binary change is cut off`},
		"binary, in a line":    {git + "index 1..2 100644\nGIT binary patch\nliteral 1\nIcmZ", Malformed, "cut off"},
		"binary, without all":  {git + "index 1..2 100644\nGIT binary patch\n" + hunkOfX, Malformed, "has no content"},
		"binary, a wrong line": {git + "index 1..2 100644\nGIT binary patch\nliteral 1\nIcmZ\n\n", Malformed, `has a wrong line, "IcmZ"`},
		"binary, an odd line":  {git + "index 1..2 100644\nGIT binary patch\nliteral 1\n--- a/y\n\n", Malformed, "has a wrong line"},
		"binary, with a hunk":  {git + "index 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n" + hunkOfX, Malformed, "a hunk has no file before it"},
		"binary, a link":       {git + "new file mode 120000\nindex 0..2\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n", Unsupported, "a symbolic link that git refuses"},
		"link: .gitmodules":    {newLink(".GitModules", "x"), Unsupported, "a symbolic link that git refuses"},
		"binary, left out":     {git + "index 1..2 100644\nBinary files a/x and b/x differ\n", Binary, "it changes a binary file, without its content: make the patch with `git diff --binary`"},
		"binary, of diff":      {"Binary files a/x and b/x differ\n", Binary, "binary"},
		"two names":            {plain("a/x", "b/y"), Malformed, `file "y": it has the name "x" too`},
		"two names, of git":    {git + "--- a/x\n+++ b/y\n" + hunkOfX, Malformed, `it has the name "x" too`},
		"two renames":          {git + "rename from x\nrename from y\n", Malformed, `it has the name "x" too`},
		"half a rename":        {git + "rename from x\n", Malformed, "does not say which file"},
		"a name not repeated":  {"diff --git a/x b/yy\nindex 1..2\n", Malformed, "does not say which file"},
		"new without a line":   {git + "--- /dev/null\n+++ b/x\n" + added("x"), Malformed, "no line for the new or removed file"},
		"no change":            {git + "text\n", Malformed, `line 2 of the patch, file "x": its header says no change`},
		"no names":             {plain("/dev/null", "/dev/null"), Malformed, "no name before the change and none after it"},
		"no prefix":            {plain("x", "x"), Malformed, `the name "x" has no a/ or b/ before it: make the patch with ` + "`git diff`, without --no-prefix"},
		"a bad quote":          {plain(`"a/x`, `"b/x`), Malformed, "is not quoted as git does"},
		"a half header":        {git + "--- a/x\n" + hunkOfX, Malformed, `a line that begins with "+++ " is missing here`},
		"an odd path":          {plain("a/x//y", "b/x//y"), Malformed, "no path that git writes"},
		"a hunk alone":         {hunkOfX, Malformed, "line 1 of the patch: a hunk has no file before it"},
		"an odd hunk":          {"--- a/x\n+++ b/x\n@@ -x +1 @@\n-a\n", Malformed, "not of the form"},
		"cut off":              {"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n", Malformed, `line 6 of the patch, file "x", hunk "@@ -1,3 +1,3 @@": the hunk ends 2 lines early: send the whole patch`},
		"cut off in a line":    {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b", Malformed, "the hunk's last line has no newline"},
		"another line":         {"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\nb\n", Malformed, "the hunk ends 2 lines early"},
		"too many lines":       {"--- a/x\n+++ b/x\n@@ -1,1 +1,2 @@\n-a\n b\n+c\n", Malformed, "other lines than its first line counts"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, c.reason, refusal.Reason, err)
			assert.ErrorContains(t, err, c.want)
			assert.NotEmpty(t, refusal.Remedy)
		})
	}
}

func TestLinksThatStayInTheTree(t *testing.T) {
	for _, text := range []string{newLink("l", "x"), newLink("a/b/l", "../../x/y"), newLink("a/l", ".."), newLink("l", ".gitignore")} {
		_, err := Parse([]byte(text))
		assert.NoError(t, err, text)
	}
}

// FuzzParse compares with git: a patch that git accepts changes the files that Parse found, and nothing else, and
// leaves no link out of the tree.
func FuzzParse(f *testing.F) {
	f.Add([]byte(plain("a/numbers", "b/numbers")))
	f.Add([]byte(newLink("l", "../x") + plain("a/l", "b/l")))
	f.Add([]byte("diff --git a/numbers b/n\nsimilarity index 100%\nrename from numbers\nrename to n\n"))
	f.Add([]byte("diff --git \"a/\\303\" \"b/\\303\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\303\"\n@@ -0,0 +1 @@\n+x\n"))
	r := newTree(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err != nil {
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			return
		}
		for _, file := range p.Files {
			for _, name := range []string{file.Old, file.New} {
				assert.NotContains(t, strings.Split(name, "/"), "..")
				assert.False(t, strings.HasPrefix(name, "/"))
			}
		}
		out, err := r.Run(t.Context(), text, "apply", "-p1", "--numstat", "-z")
		require.NoError(t, err)
		if out.Status == 0 {
			seen := numstat(out.Stdout)
			for i := range min(len(seen), len(p.Files)) {
				assert.Equal(t, seen[i], p.Files[i].Path())
			}
		}
	})
}
