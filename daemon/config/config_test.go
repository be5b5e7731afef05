package config

import (
	"bytes"
	"encoding"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/strict"
	"codex-proxy/proxy/auth"
	"codex-proxy/proxy/modelname"
)

const reference = "../../packaging/etc/config.toml"

func TestDefaultsNeedNoThought(t *testing.T) {
	c, err := Load(write(t, ""), nil)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:8787", c.Listen)
	assert.Equal(t, []string{"default"}, c.Workers)
	assert.Equal(t, "/run/codex-proxy/default.sock", c.Socket("default"))
	assert.True(t, c.Keys.Empty())
}

func TestAliases(t *testing.T) {
	const text = `
cors_origins = ['http://localhost:3000', '*', 'https://a.b:80', 'chrome-extension://abc', 'capacitor://localhost']
[models.aliases]
'gpt-5-high' = { model = 'gpt-5', effort = 'high', summary = 'none' }
'claude-*' = { model = 'gpt-5' }
'*' = { model = 'gpt-5-mini' }
`
	c, err := Load(write(t, text),
		[]string{"models.aliases.mini={model='gpt-5-mini'}", "usage_retention=7d",
			"models.reasoning_summary=auto"})
	require.NoError(t, err)
	assert.Equal(t, "auto", c.Summary)
	want := map[string]modelname.Alias{
		"gpt-5-high": {Model: "gpt-5", Effort: "high", Summary: "none"}, "mini": {Model: "gpt-5-mini"},
		"claude-*": {Model: "gpt-5"}, "*": {Model: "gpt-5-mini"}}
	assert.Equal(t, want, c.Aliases)
	assert.Equal(t, []string{"http://localhost:3000", "*", "https://a.b:80", "chrome-extension://abc",
		"capacitor://localhost"}, c.CORSOrigins)
	assert.Equal(t, 7, c.UsageRetention)
}

// The reference file is the manual: it must show every key, with its default.
func TestReferenceFile(t *testing.T) {
	text, err := os.ReadFile(reference)
	require.NoError(t, err)
	// The table of aliases, at the end, is an example.
	text, examples, _ := bytes.Cut(text, []byte("\n# Further names of models"))
	aliases := regexp.MustCompile(`(?m)^#(["a-z0-9*_-]+ = |\[)`).ReplaceAllString("#"+string(examples), "$1")
	require.NoError(t, strict.Decode(reference, []byte(aliases), new(raw)))
	assert.Contains(t, aliases, "\n[models.aliases]\n")
	shown := regexp.MustCompile(`(?m)^#([a-z_]+ = )`).ReplaceAllString(string(text), "$1")
	shown = regexp.MustCompile(`(?m)^#(\[[a-z]+\])$`).ReplaceAllString(shown, "$1")

	var parsed raw
	require.NoError(t, strict.Decode(reference, []byte(shown), &parsed))
	if len(parsed.Workers) == 0 {
		parsed.Workers = nil
	}
	if len(parsed.CORSOrigins) == 0 {
		parsed.CORSOrigins = nil
	}
	if len(parsed.Requires) == 0 {
		parsed.Requires = nil
	}
	assert.Equal(t, defaults(), parsed, "a shown value is not the default")
	assertShown(t, shown, reflect.TypeFor[raw]())
}

func assertShown(t *testing.T, shown string, table reflect.Type) {
	t.Helper()
	for i := range table.NumField() {
		key := table.Field(i).Tag.Get("toml")
		if key == "aliases" || !table.Field(i).IsExported() {
			continue
		}
		if table.Field(i).Anonymous {
			assertShown(t, shown, table.Field(i).Type)
			continue
		}
		if f := table.Field(i).Type; f.Kind() == reflect.Struct &&
			!reflect.PointerTo(f).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			_, text, ok := strings.Cut(shown, "\n["+key+"]\n")
			assert.True(t, ok, "table [%s] not shown", key)
			text, _, _ = strings.Cut(text, "\n[")
			assertShown(t, "\n"+text, f)
			continue
		}
		assert.Contains(t, shown, "\n"+key+" = ", "key not shown")
	}
}

func TestSetOverrides(t *testing.T) {
	c, err := Load(write(t, `keepalive = "1s"`), []string{"keepalive=2s", "max_inflight=3",
		`workers=["a","b"]`, "log_level=debug"})
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, c.Keepalive)
	assert.Equal(t, 3, c.MaxInflight)
	assert.Equal(t, []string{"a", "b"}, c.Workers)
	assert.Equal(t, slog.LevelDebug, c.LogLevel)
}

func TestLoadNamesWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		set  []string
		want string
	}{
		"unknown key": {text: "\nidle_timout = '1s'",
			want: `config.toml:2: unknown key "idle_timout" (did you mean "idle_timeout"?)`},
		"not a duration": {text: "keepalive = 'soon'", want: `config.toml:1: keepalive: `},
		"a number": {text: "keepalive = 15", want: `config.toml:1: keepalive: "15" is not a duration such as ` +
			`"300ms", "15s"`},
		"a fraction": {text: "\nkeepalive = 1.5",
			want: `config.toml:2: keepalive: "1.5" is not a duration such as`},
		"image seconds": {text: "[images]\ntimeout = 15",
			want: `config.toml:2: images.timeout: "15" is not a duration such as`},
		"set a number": {set: []string{"keepalive=15"}, want: `keepalive: "15" is not a duration such as`},
		"days": {text: "usage_retention = -1000000",
			want: `config.toml:1: usage_retention: "-1000000" is not a number of days from "1d"`},
		"zero days": {text: "usage_retention = 0", want: `usage_retention: "0" is not a number of days from "1d"`},
		"level's number": {text: "log_level = 99", want: `config.toml:1: log_level: "99" is not a log level: debug, ` +
			`info, warn or error`},
		"network number": {text: "[images]\nallow_private = [\n'10.0.0.0/8',\n10]",
			want: `config.toml:4: images.allow_private: "10" is not a network such as`},
		"zero duration": {text: "keepalive = '0s'", want: "keepalive = \"0s\": must be between 10ms and 24h"},
		"level":         {text: "log_level = 'loud'", want: "debug, info, warn or error"},
		"inflight":      {text: "max_inflight = 1000", want: "between 1 and 96"},
		"queue limit":   {text: "queue_limit = 0", want: "queue_limit = 0: must be between 1 and 10000"},
		"queue timeout": {text: "queue_timeout = '0s'", want: "queue_timeout = \"0s\": must be between 10ms and 24h"},
		"ready timeout": {text: "ready_timeout = '25h'", want: "ready_timeout = \"25h0m0s\": must be between 10ms and 24h"},
		"total timeout": {text: "request_timeout = '1ms'", want: "must be between 10ms and 24h, or 0s for none"},
		"body limit":    {text: "body_limit = 1", want: "between 1024"},
		"unknown":       {text: `unknown_parameters = "drop"`, want: `must be "refuse" or "ignore"`},
		"start timeout": {text: "start_timeout = '41s'",
			want: "start_timeout = \"41s\": must be between 10ms and 40s, as systemd ends"},
		"listen":  {text: "listen = '8787'", want: "must be HOST:PORT"},
		"no port": {text: "listen = '127.0.0.1:'", want: "must be HOST:PORT"},
		"large port": {text: "listen = '127.0.0.1:99999'",
			want: "listen = \"127.0.0.1:99999\": there is no port \"99999\"; use a number up to 65535"},
		"named port":    {text: "listen = ':nosuch'", want: "there is no port \"nosuch\""},
		"worker name":   {text: "workers = ['a/b']", want: "a/b"},
		"worker twice":  {text: "workers = ['a', 'a']", want: "twice"},
		"relative dir":  {text: "socket_dir = 'run'", want: "absolute"},
		"relative keys": {text: "api_keys = 'keys'", want: "api_keys = \"keys\": must be an absolute path"},
		"no keys file":  {text: "api_keys = '/nonexistent'", want: "cannot read the API keys"},
		"image bytes":   {text: "[images]\nmax_bytes = 1", want: "images.max_bytes = 1: must be between 1024"},
		"image timeout": {text: "[images]\ntimeout = '1h'",
			want: "images.timeout = \"1h0m0s\": must be between 100ms and 1m"},
		"not a network": {text: "[images]\nallow_private = ['10.0.0.1']",
			want: `config.toml:2: images.allow_private: `},
		"host bits": {text: "[images]\nallow_private = ['10.0.0.1/8']",
			want: `write "10.0.0.0/8" or "10.0.0.1/32"`},
		"trace ratio": {text: "[traces]\nsample_ratio = 1.5",
			want: "traces.sample_ratio = 1.5: must be between 0 and 1"},
		"trace scheme": {text: "[traces]\nendpoint = 'collector:4317'",
			want: `traces.endpoint: must be the URL of an OTLP/HTTP collector, such as "http://`},
		"trace host": {text: "[traces]\nendpoint = 'http:///v1/traces'", want: "traces.endpoint: must be the URL"},
		"trace secret": {text: "[traces]\nendpoint = 'https://me:planted@collector'",
			want: "secrets go into /etc/codex-proxy/traces-headers"},
		"trace query":  {text: "[traces]\nendpoint = 'https://collector?key=planted'", want: "secrets go into"},
		"console path": {text: "[console]\norigins = ['https://codex.example.com/']", want: `console.origins: "https://codex.example.com/" must be an address as a browser writes it`},
		"console port": {text: "[console]\norigins = ['https://codex.example.com:443']", want: "without :443"},
		"console name": {text: "[console]\norigins = ['https://Codex.example.com']", want: "in small letters"},
		"console kind": {text: "[console]\norigins = ['codex.example.com']", want: "console.origins"},
		"console both": {text: "[console]\norigins = ['https://a.b', 'http://a.b']", want: "a.b may have http or https, not both"},
		"push network": {text: "[console]\npush_private = ['10.0.0.1']", want: "is not a network such as"},
		"console user": {text: "[console]\norigins = ['https://a@b']", want: "console.origins"},
		"trace key":    {text: "[traces]\nendpoit = ''", want: `(did you mean "traces.endpoint"?)`},
		"image key":    {text: "[images]\nfetsh = true", want: `(did you mean "images.fetch"?)`},
		"alias effort": {text: "[models.aliases]\nx = { model = 'm', effort = 'huge' }",
			want: `models.aliases: "x": effort = "huge": must be one of none, minimal, low`},
		"summary": {text: "[models]\nreasoning_summary = 'long'",
			want: `models.reasoning_summary = "long": must be one of auto, concise, detailed, none`},
		"empty summary": {text: "[models]\nreasoning_summary = ''", want: `must be one of auto`},
		"summary key":   {text: "[models]\nsummary = 'auto'", want: `config.toml:2: unknown key "models.summary"`},
		"alias summary": {text: "[models.aliases]\nx = { model = 'm', summary = 'long' }",
			want: `models.aliases: "x": summary = "long": must be one of auto, concise, detailed, none`},
		"alias model": {text: "[models.aliases]\nx = { effort = 'low' }", want: "model is missing"},
		"alias of alias": {text: "[models.aliases]\nx = { model = 'y' }\ny = { model = 'm' }",
			want: `model = "y" is an alias, too`},
		"alias of self": {text: "[models.aliases]\nx = { model = 'x' }", want: "is an alias, too"},
		"alias name":    {text: "[models.aliases]\n'a,b' = { model = 'm' }", want: "without space, comma and #"},
		"alias pattern": {text: "[models.aliases]\n'claude-*-4-*' = { model = 'm' }",
			want: `config.toml: models.aliases: "claude-*-4-*": a name has at most one *, which stands for any characters: ` +
				`write "claude-*"`},
		"alias of pattern": {text: "[models.aliases]\n'claude-*' = { model = 'gpt-*' }",
			want: `models.aliases: "claude-*": model = "gpt-*": only the name of an alias may have a *; name one model`},
		"alias pattern without a model": {text: "[models.aliases]\n'claude-*' = {}", want: `"claude-*": model is missing`},
		"alias key": {text: "[models.aliases]\nx = { modle = 'm' }",
			want: `config.toml:2: unknown key "models.aliases.modle" (did you mean "models.aliases.model"?)`},
		"origin":        {text: "cors_origins = ['https://app.example.com/']", want: "without a path"},
		"origin's case": {text: "cors_origins = ['https://App.example.com']", want: "lower case"},
		"no origin":     {text: "cors_origins = ['app.example.com']", want: "must be an origin"},
		"https port": {text: "cors_origins = ['https://a.b:443']",
			want: `browsers send "https://a.b:443" without the port: write "https://a.b"`},
		"http port":  {text: "cors_origins = ['http://[::1]:80']", want: `write "http://[::1]"`},
		"empty port": {text: "cors_origins = ['https://a.b:']", want: `write "https://a.b"`},
		"file transfer": {text: "cors_origins = ['ftp://x']",
			want: `no page has the origin "ftp://x": write "https://x", or "http://x"`},
		"umlaut": {text: "cors_origins = ['https://bücher.example']", want: "browsers send the name in"},
		"mapped network": {text: "[images]\nallow_private = ['::ffff:10.0.0.0/104']",
			want: `"::ffff:10.0.0.0/104" is a network of IPv4: write "10.0.0.0/8"`},
		"retention": {text: "usage_retention = '0d'",
			want: `config.toml:1: usage_retention: "0d" is not a number of days`},
		"responses": {text: "response_retention = '1s'",
			want: "must be between 1m and 87600h, or 0s to keep none"},
		"response bytes": {text: "response_storage = 1", want: "response_storage = 1: must be between 1048576"},
		"retention unit": {text: "usage_retention = '24h'", want: "is not a number of days"},
		"set unknown":    {set: []string{"keepaliv=1s"}, want: `unknown key "keepaliv" (did you mean "keepalive"?)`},
		"set malformed":  {set: []string{"keepalive"}, want: "key=value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, tc.text), tc.set)
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

func TestImages(t *testing.T) {
	path := write(t, "[images]\nallow_private = ['10.0.0.0/8', 'fd00::/8']")
	images, err := LoadImages(path, []string{"images.timeout=3s", "images.fetch=false"})
	require.NoError(t, err)
	assert.Equal(t, &Images{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		MaxBytes:     10 << 20, Timeout: 3 * time.Second,
	}, images)
	c, err := Load(path, []string{"images.timeout=3s", "images.fetch=false"})
	require.NoError(t, err)
	assert.Equal(t, *images, c.Images)
	assert.Equal(t, "/run/codex-proxy/fetch.socket", c.FetchSocket())
}

func TestConsole(t *testing.T) {
	path := write(t, "[console]\norigins = ['https://codex.example.com']\npush_private = ['10.0.0.0/8']")
	console, err := LoadConsole(path, nil)
	require.NoError(t, err)
	assert.Equal(t, &Console{Origins: []string{"https://codex.example.com"}, PushPrivate: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, console)
}

func TestTraces(t *testing.T) {
	off, err := LoadTraces(write(t, ""), nil)
	require.NoError(t, err)
	assert.Equal(t, &Traces{SampleRatio: 1}, off)
	assert.Empty(t, off.Host())
	for endpoint, want := range map[string]Traces{
		"http://127.0.0.1:4318":          {Endpoint: "http://127.0.0.1:4318/v1/traces", SampleRatio: 1},
		"https://[::1]:4318/":            {Endpoint: "https://[::1]:4318/v1/traces", SampleRatio: 1},
		"https://traces.example/otlp/v1": {Endpoint: "https://traces.example/otlp/v1", SampleRatio: 1},
	} {
		path := write(t, "[traces]\nendpoint = '"+endpoint+"'")
		traces, err := LoadTraces(path, nil)
		require.NoError(t, err)
		assert.Equal(t, &want, traces)
		c, err := Load(path, nil)
		require.NoError(t, err)
		assert.Equal(t, want, c.Traces)
	}
	assert.Equal(t, "::1", (&Traces{Endpoint: "https://[::1]:4318/v1/traces"}).Host())
}

// The variables of OpenTelemetry replace the endpoint for the unit that sends traces.
func TestTracesOfTheEnvironment(t *testing.T) {
	path := write(t, "[traces]\nendpoint = 'http://127.0.0.1:4318'\nsample_ratio = 0.5")
	for _, c := range []struct{ name, value, want string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://10.0.0.1:4317", "http://10.0.0.1:4317/v1/traces"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://10.0.0.1/otlp/", "https://10.0.0.1/otlp/v1/traces"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://10.0.0.2/all", "https://10.0.0.2/all"},
	} {
		t.Setenv(c.name, c.value)
		traces, err := LoadTraces(path, nil)
		require.NoError(t, err)
		assert.Equal(t, &Traces{Endpoint: c.want, SampleRatio: 0.5}, traces)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317")
	_, err := LoadTraces(path, nil)
	assert.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: must be the URL")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:planted@collector")
	_, err = LoadTraces(path, nil)
	assert.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_ENDPOINT: must have no user")
	assert.NotContains(t, err.Error(), "planted")
}

func TestHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	read := func(text string) (http.Header, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return ReadHeaders(file)
	}
	none, err := ReadHeaders("")
	require.NoError(t, err)
	assert.Empty(t, none)
	h, err := read("# for the collector\n\nAuthorization: Bearer x:y\r\nx-scope:  me \n")
	require.NoError(t, err)
	assert.Equal(t, http.Header{"Authorization": {"Bearer x:y"}, "X-Scope": {"me"}}, h)
	for _, text := range []string{"planted", "A B: planted", "A: b\nB: plan\x01ted"} {
		_, err = read(text)
		assert.ErrorContains(t, err, "must be a header, as in: Authorization: Bearer TOKEN")
		assert.NotContains(t, err.Error(), "plan")
	}
	require.NoError(t, os.Chmod(file, 0o644))
	_, err = ReadHeaders(file)
	assert.ErrorContains(t, err, "others must not read it: chmod 0600")
}

func TestNoWorkerFile(t *testing.T) {
	path := write(t, "")
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(path), "workers", "default.toml")))
	_, err := Load(path, nil)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "no worker is configured")
}

// An editor leaves files of its own beside the open file.
func TestHiddenFilesAreNoWorkers(t *testing.T) {
	path := write(t, "")
	dir := filepath.Join(filepath.Dir(path), "workers")
	require.NoError(t, os.Symlink("root@host.1:2", filepath.Join(dir, ".#default.toml")))
	c, err := Load(path, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"default"}, c.Workers)
}

func TestKeysComeFromAPrivateFile(t *testing.T) {
	_, line, err := auth.Generate("ci")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	c, err := Load(write(t, ""), []string{"api_keys=" + file})
	require.NoError(t, err)
	assert.Equal(t, []string{"ci"}, c.Keys.Names())

	for mode, good := range map[os.FileMode]bool{0o640: true, 0o440: true, 0o644: false, 0o660: false, 0o601: false} {
		require.NoError(t, os.Chmod(file, mode))
		_, err = Load(write(t, ""), []string{"api_keys=" + file})
		if good {
			assert.NoError(t, err, "%04o", mode)
		} else {
			assert.ErrorContains(t, err, "chmod 0640 "+file)
		}
	}
}

func TestKeysComeFromTheCredential(t *testing.T) {
	_, line, err := auth.Generate("unit")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, credential), []byte(line), 0o400))
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	c, err := Load(write(t, ""), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"unit"}, c.Keys.Names())
	c, err = Load(write(t, ""), []string{"api_keys=" + DefaultKeyFile})
	require.NoError(t, err, "the file itself is root's alone")
	assert.Equal(t, []string{"unit"}, c.Keys.Names())
	assert.Empty(t, c.KeyFile)
}

func write(t *testing.T, text string) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "workers"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "workers", "default.toml"), nil, 0o644))
	path := filepath.Join(dir, "config.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}
