package dependencies

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/bed"
)

// strange are the pieces of the values that systemd could read in another way than they
// are meant.
var strange = []string{"%", "%h", "%%", "$", "$HOME", "${HOME}", "$$", `\`, `\\`, `\n`, `\x41`, `\`, `"`, `'`, "\t",
	" ", ";", "#", "{", "}", "=", ":", "-", "@", "+", "!", "|", "~", "&", "*", "?", "[", "]", "(", ")", "<", ">",
	"`", ",", "ü", "日本",
	"🙂", "\u00a0", "\u2028", "a", "Z", "0", "/", ".", "--", "state", "%{state}"}

// strangeFile is the file of a dependency with random values.
type strangeFile struct {
	Description string            `toml:"description"`
	Command     []string          `toml:"command"`
	Prepare     []string          `toml:"prepare"`
	Environment map[string]string `toml:"environment"`
	Credentials map[string]string `toml:"credentials"`
	Directories []string          `toml:"directories"`
	Probe       struct {
		Check string `toml:"check"`
	} `toml:"probe"`
}

func text(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(strange[r.IntN(len(strange))])
	}
	return b.String()
}

// strangePath is a path without the characters that the file refuses.
func strangePath(r *rand.Rand) string {
	name := strings.NewReplacer(`\`, "", `"`, "", "\t", "", "/", "").Replace(text(r))
	return "/srv/" + strings.Trim(name, ". ") + "x"
}

func newStrangeFile(r *rand.Rand) (f strangeFile) {
	texts := func(first string) []string {
		list := []string{first}
		for range r.IntN(6) {
			list = append(list, text(r))
		}
		return list
	}
	f.Description = "d" + strings.TrimRight(strings.TrimSpace(text(r)), `\ `+"\t\u00a0\u2028")
	f.Command, f.Prepare = texts("/bin/true"), texts("true")
	f.Environment = map[string]string{"A": text(r), "B": text(r)}
	f.Credentials = map[string]string{"key": strangePath(r)}
	f.Directories = []string{strangePath(r), strangePath(r)}
	f.Probe.Check = "exec:true " + text(r)
	return f
}

// doubled is the file with "{{" for each brace, as TOML.
func (f strangeFile) doubled(t *testing.T) []byte {
	t.Helper()
	double := func(s string) string { return strings.ReplaceAll(s, "{", "{{") }
	all := func(list []string) (doubled []string) {
		for _, s := range list {
			doubled = append(doubled, double(s))
		}
		return doubled
	}
	d := f
	d.Command, d.Prepare = all(f.Command), all(f.Prepare)
	d.Environment = map[string]string{"A": double(f.Environment["A"]), "B": double(f.Environment["B"])}
	d.Probe.Check = double(f.Probe.Check)
	file, err := toml.Marshal(d)
	require.NoError(t, err)
	return file
}

// systemd reads the values of a file as they are meant.
func TestDependencyValues(t *testing.T) { bed.EitherSuite(t, testDependencyValues) }

func testDependencyValues(t *testing.T, suite string) {
	b := bed.New(t, suite, bed.RealWorker, "")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	files := map[string]strangeFile{}
	for i := range 40 {
		name := fmt.Sprintf("d-%d", i)
		files[name] = newStrangeFile(r)
		dependencyFile(b, name, string(files[name].doubled(t)))
	}
	b.MustRun(t, "systemctl", "daemon-reload")
	for name, want := range files {
		got := loaded(b, name)
		argv, command := split(t, got.start[0].argv)
		assert.Equal(t, want.Command, command, name)
		require.Contains(t, argv, "--probe", name)
		assert.Equal(t, want.Probe.Check, argv[slices.Index(argv, "--probe")+1], name)
		_, prepare := split(t, got.startPre[len(got.startPre)-1].argv)
		assert.Equal(t, want.Prepare, prepare, name)
		for key, value := range want.Environment {
			assert.Contains(t, got.environment, key+"="+value, name)
		}
		assert.Equal(t, want.Description, got.description, name)
		for _, dir := range want.Directories {
			assert.Contains(t, got.writable, "-"+dir, name)
		}
		assert.Equal(t, [][2]string{{"key", want.Credentials["key"]}}, got.credentials, name)
	}
}

// dependencyFile writes the file of a dependency, which systemd reads at the next
// daemon-reload.
func dependencyFile(b *bed.Bed, name, file string) {
	b.T.Helper()
	require.NoError(b.T, b.WriteFile("/etc/codex-proxy/dependencies/"+name+".toml", []byte(file), 0o644))
}

// loadedDependency is the unit as systemd has read it.
type loadedDependency struct {
	start, startPre       []loadedCommand
	environment, writable []string
	credentials           [][2]string
	description           string
}

type loadedCommand struct {
	path string
	argv []string
}

// split returns the options before "--" and the command after it.
func split(t *testing.T, argv []string) (options, command []string) {
	t.Helper()
	at := slices.Index(argv, "--")
	require.Positive(t, at, "%q", argv)
	return argv[:at], argv[at+1:]
}

func loaded(b *bed.Bed, name string) (l loadedDependency) {
	b.T.Helper()
	path := "/org/freedesktop/systemd1/unit/codex_2ddependency_40" + strings.ReplaceAll(name, "-", "_2d") +
		"_2eservice"
	property := func(kind, property string, into any) {
		b.T.Helper()
		out := b.MustRun(b.T, "busctl", "--json=short", "get-property", "org.freedesktop.systemd1", path,
			"org.freedesktop.systemd1."+kind, property)
		var value struct{ Data json.RawMessage }
		require.NoError(b.T, json.Unmarshal([]byte(out), &value), out)
		require.NoError(b.T, json.Unmarshal(value.Data, into), out)
	}
	commands := func(name string) (list []loadedCommand) {
		var raw [][]any
		property("Service", name, &raw)
		for _, c := range raw {
			command := loadedCommand{path: c[0].(string)}
			for _, arg := range c[1].([]any) {
				command.argv = append(command.argv, arg.(string))
			}
			list = append(list, command)
		}
		return list
	}
	l.start, l.startPre = commands("ExecStart"), commands("ExecStartPre")
	property("Service", "Environment", &l.environment)
	property("Service", "ReadWritePaths", &l.writable)
	property("Service", "LoadCredential", &l.credentials)
	property("Unit", "Description", &l.description)
	return l
}
