package remoteconfig

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/internal/handstable"
	"codex-proxy/internal/strict"
)

func TestDefaults(t *testing.T) {
	s, err := Load("testdata/minimal.toml")
	require.NoError(t, err)
	assert.Equal(t, "remote minimal", s.Description)
	assert.Equal(t, AllOfIt, s.Network)
	assert.Equal(t, WorkspaceWrite, s.Sandbox)
	assert.Equal(t, 30*time.Minute, s.IdleStop)
	assert.Equal(t, Always, s.Continue)
	assert.Equal(t, RefuseUnknown, s.UnknownMethods)
	assert.Equal(t, 3, s.ContinueLimit)
	assert.Equal(t, &Provider{Name: "local", BaseURL: "https://models.example/v1"}, s.Provider)
}

// provider ends a file.
const provider = "\nmodel = \"m\"\n[provider]\nname = \"p\"\nbase_url = \"https://h/v1\"\n"

// Each fault names its line, its key and the remedy.
func TestFaults(t *testing.T) {
	const dir = "directory = \"/srv/a\"\n"
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":       {"directry = 1", `x.toml:1: unknown key "directry" (did you mean "directory"?)`},
		"no directory":      {provider, `x.toml: directory: is missing: name the directory`},
		"relative":          {"directory = \"a\"" + provider, `x.toml:1: directory: "a" is not an absolute path`},
		"colon":             {"directory = \"/srv/a:b\"" + provider, `x.toml:1: directory: "/srv/a:b" has a colon`},
		"temporary":         {"directory = \"/tmp/a\"" + provider, `x.toml:1: directory: "/tmp/a" lies below /tmp`},
		"all homes":         {"directory = \"/home\"" + provider, `x.toml:1: directory: "/home" holds the homes`},
		"a remote's home":   {"directory = \"/var/lib/codex-remote/b\"" + provider, `is, or holds, a directory of the system`},
		"the whole disk":    {"directory = \"/\"" + provider, `is, or holds, a directory of the system`},
		"root":              {dir + "user = \"root\"" + provider, `x.toml:2: user: a remote does not run as root`},
		"user of a session": {dir + "user = \"cs-x\"" + provider, `x.toml:2: user: "cs-x" belongs to codex-proxy`},
		"user of ours":      {dir + "user = \"cr-x\"" + provider, `x.toml:2: user: "cr-x" belongs to codex-proxy`},
		"no name of a user": {dir + "user = \"a b\"" + provider, `x.toml:2: user: "a b" is not the name of a user`},
		"group":             {dir + "group = \"A\"" + provider, `x.toml:2: group: "A" is not the name of a group`},
		"network":           {dir + "network = \"lan\"" + provider, `x.toml:2: network: "lan" is unknown: choose`},
		"far provider": {dir + "network = \"loopback\"" + provider,
			`x.toml:6: provider.base_url: "https://h/v1" is not on this machine`},
		"full access": {dir + "sandbox = \"danger-full-access\"" + provider,
			`x.toml:2: sandbox: "danger-full-access" is not possible for a remote: choose`},
		"nothing to write": {dir + "sandbox = \"read-only\"\nwritable = [\"/srv/b\"]" + provider,
			`x.toml:3: writable: nothing is writable with sandbox = "read-only"`},
		"memory":      {dir + "memory = \"4 GB\"" + provider, `x.toml:2: memory: "4 GB" is not a size such as "4G"`},
		"cpu":         {dir + "cpu = \"2\"" + provider, `x.toml:2: cpu: "2" is not a part of one CPU`},
		"tasks":       {dir + "tasks = 4" + provider, `x.toml:2: tasks: 4 must be between 32 and`},
		"unknown":     {dir + "unknown_methods = \"all\"" + provider, `x.toml:2: unknown_methods: "all" is unknown: choose "refuse" or`},
		"idle":        {dir + "idle_stop = \"1s\"" + provider, `x.toml:2: idle_stop: "1s" must be between 10s`},
		"no duration": {dir + "idle_stop = 10" + provider, `x.toml:2:`},
		"continue":    {dir + "continue = \"yes\"" + provider, `x.toml:2: continue: "yes" is unknown: choose "always"`},
		"limit":       {dir + "continue_limit = 0" + provider, `x.toml:2: continue_limit: 0 must be between 1 and 100`},
		"accounts of a provider": {dir + "accounts = [\"a\"]" + provider,
			`x.toml:2: accounts: the [provider] serves this remote: remove accounts, or [provider]`},
		"far accounts":   {dir + "network = \"loopback\"", `x.toml:2: network: with "loopback" no account is reached: set`},
		"no account":     {dir + "accounts = [\"-a\"]", `x.toml:2: accounts: cannot use "-a" as a worker name`},
		"account, twice": {dir + "accounts = [\"a\", \"a\"]", `x.toml:2: accounts: "a" is there twice: remove one`},
		"no model":       {dir + strings.Replace(provider, "model", "# model", 1), `model: is missing: name the model`},
		"codex's provider": {dir + strings.Replace(provider, `"p"`, `"openai"`, 1),
			`x.toml:5: provider.name: "openai" is not a name`},
		"key in the URL": {dir + strings.Replace(provider, "//h", "//u:p@h", 1), `is not an http(s) URL`},
		"key file":       {dir + provider + "key_file = \"k\"", `x.toml:7: provider.key_file: "k" is not an absolute path`},
		"hidden authorities": {dir + provider + "ca_file = \"/root/ca.pem\"",
			`x.toml:7: provider.ca_file: "/root/ca.pem" lies below /root, which the unit does not see`},
		"sandbox of codex": {dir + provider + "[codex]\nsandbox_mode = \"x\"",
			`x.toml:8: codex.sandbox_mode: is made of other keys of this file: remove it, and set sandbox`},
		"notify": {dir + provider + "[notify]\ncommand = [\"ls\"]", `x.toml:8: notify.command: "ls" is not an absolute path`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.toml", []byte(tc.text))
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"A.toml", "a.viewer.toml", "a", strings.Repeat("a", 29) + ".toml", "-a.toml"} {
		_, err := Parse(name, nil)
		assert.Error(t, err, name)
	}
}

// The template is its own manual: it parses, and shows the default of each key.
func TestTemplate(t *testing.T) {
	const file = "../../packaging/remotes/template.toml"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	s, err := Parse("template.toml", text)
	require.NoError(t, err)
	var shown strings.Builder
	before, rest, _ := strings.Cut(string(text), "#[hands]\n") // a remote has either these or a directory
	table, after, _ := strings.Cut(rest, "# What is done when")
	for line := range strings.Lines(before + "# " + after) {
		key := strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
		if key != line && (assignment.MatchString(key) || key == "[provider]\n") {
			line = key
		}
		shown.WriteString(line)
	}
	text = []byte(strings.Replace(shown.String(), "model = \"\"", "model = \"m\"", 1)) // which a provider needs
	all, err := Parse("template.toml", text)
	require.NoError(t, err)
	require.NotEqual(t, s.Hash, all.Hash)
	for _, same := range []*Settings{s, all} {
		same.Hash, same.Lines = "", s.Lines
	}
	assert.Equal(t, &Provider{Name: "local", BaseURL: "http://127.0.0.1:8080/v1", Models: []string{}}, all.Provider)
	all.Writable, all.Notify, all.Accounts, all.Provider, all.Model = nil, nil, nil, nil, ""
	assert.Equal(t, s, all)

	hands, err := Parse("template.toml", []byte("[hands]\n"+strings.ReplaceAll(strings.ReplaceAll("\n"+table, "\n#", "\n"), "\n ", "\n# ")))
	require.NoError(t, err)
	assert.Equal(t, &Hands{Repo: "/srv/app", Timeout: handstable.Timeout}, hands.Hands)
	assert.Equal(t, NoNetwork, hands.Network)
	assert.Empty(t, hands.Directories())
}

// assignment is a line of a key that is commented out.
var assignment = regexp.MustCompile(`^[a-z_]+ = `)

// The template has every key.
func TestTemplateIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../packaging/remotes/template.toml")
	require.NoError(t, err)
	for _, key := range strict.Keys(raw{}) {
		_, last, nested := strings.Cut(key, ".")
		if !nested {
			last = key
		}
		assert.Regexp(t, `(?m)^(#|# )?(`+regexp.QuoteMeta(last)+` = |\[`+regexp.QuoteMeta(key)+`\])`, string(text), key)
	}
}

// Hands on another host have a token over TLS, and no key of codex-runner.
func TestHandsElsewhere(t *testing.T) {
	parse := func(table string) (*Settings, error) { return Parse("far.toml", []byte("[hands]\n"+table)) }
	const url, token = "url = \"wss://h/x\"\n", "token_file = \"/etc/t\"\n"
	s, err := parse(url + token + "ca_file = \"/etc/ca.pem\"")
	require.NoError(t, err)
	assert.Equal(t, &Hands{URL: "wss://h/x", TokenFile: "/etc/t", CAFile: "/etc/ca.pem", Timeout: handstable.Timeout}, s.Hands)
	text := string(s.ServiceDropIn())
	assert.Contains(t, text, "\nStandardInput=file:/etc/t\n", "no other process of the user can read it")
	assert.NotContains(t, text, "LoadCredential=")
	assert.NotContains(t, text, "codex-runner")
	_, err = parse("url = \"ws://127.0.0.1:28900\"\n" + token)
	require.NoError(t, err)
	for table, want := range map[string]string{
		url:                                 "hands.token_file: is missing",
		"runner = true\n" + url + token:     "hands.url: an exec-server elsewhere needs no codex-runner here",
		url + token + "memory = \"1G\"":     "hands.url: repository, set-up and limits belong to the other host",
		"url = \"ws://h/x\"\n" + token:      `"ws://h/x" has no TLS`,
		"url = \"https://h/x\"\n" + token:   `is not a URL such as "wss://host/hands"`,
		"url = \"wss://u:p@h/x\"\n" + token: "is not a URL",
		token:                               "hands.runner: is missing",
		"runner = true\nrepo = \"/srv/a\"\n" + token: "token_file and ca_file are for url",
		url + token + "ca_file = \"/root/x\"":        "which the unit does not see",
		url + "token_file = \"t\"":                   "is not an absolute path",
	} {
		_, err := parse(table)
		require.Error(t, err, table)
		assert.Contains(t, err.Error(), want, table)
	}
}
