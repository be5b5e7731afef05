package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

// outcome is what a command line leaves behind.
type outcome struct {
	status         int
	stdout, stderr string
}

// program has one command of each kind.
func program() *Program {
	file, set, wait := "/etc/settings", []string(nil), 5*time.Minute
	serve := &cobra.Command{
		Use: "serve [NAME]", Short: "serve", Long: "\nServes.",
		RunE: func(c *cobra.Command, args []string) error {
			c.Println(file, set, wait, args)
			return nil
		},
	}
	serve.Flags().Var(Text(&file, "FILE"), "config", "the file to read")
	serve.Flags().Var(Texts(&set, "KEY=VALUE"), "set", "override one key")
	serve.Flags().Var(Duration(&wait), "wait", "how long it waits:\n  0  is refused\nas is nothing")
	serve.Flags().Var(Parsed("WORD", "", func(text string) error {
		if text != "plain" {
			return errors.New("want plain")
		}
		return nil
	}), "mode", "the mode")
	_ = serve.MarkFlagRequired("mode")
	Complete(serve, "mode", "plain")
	CompleteBegin(serve, "set", "size=")
	things := &cobra.Command{Use: "things", Short: "keep things"}
	things.PersistentFlags().BoolP("loud", "v", false, "print more")
	returning := func(err error) func(*cobra.Command, []string) error {
		return func(*cobra.Command, []string) error { return err }
	}
	things.AddCommand(
		&cobra.Command{Use: "add NAME", Short: "add a thing", RunE: returning(errors.New("full"))},
		&cobra.Command{Use: "check", Short: "check all", RunE: returning(Exit(Config, errors.New("bad")))},
		&cobra.Command{Use: "run [ARG]...", Short: "run", RunE: returning(Exit(7, nil))},
	)
	return New("prog", "1.2", Group{"Commands", []*cobra.Command{serve, things}})
}

func try(t *testing.T, line string) outcome {
	t.Helper()
	var stdout, stderr strings.Builder
	status := program().Run(t.Context(), strings.Fields(line), &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

func TestHelp(t *testing.T) {
	overview := `Usage: prog COMMAND [OPTION]...

Commands:
  serve    serve
  things   keep things
  version  print the version
  help     print this text, or that of a command

prog COMMAND --help describes a command.
`
	serve := `Usage: prog serve [NAME] [--config FILE] [--set KEY=VALUE]... [--wait TIME]
           --mode WORD

Serves.

  --config FILE    the file to read (/etc/settings)
  --set KEY=VALUE  override one key
  --wait TIME      how long it waits:
                     0  is refused
                   as is nothing (5m)
  --mode WORD      the mode
`
	things := `Usage: prog things add NAME
       prog things check
       prog things run [ARG]...

Keep things.

  -v, --loud  print more
`
	add := `Usage: prog things add NAME

Add a thing.

  -v, --loud  print more

prog things --help describes all commands of its kind.
`
	for line, want := range map[string]outcome{
		"":                {Usage, "", overview},
		"help":            {OK, overview, ""},
		"-h":              {OK, overview, ""},
		"serve --help":    {OK, serve, ""},
		"help serve":      {OK, serve, ""},
		"things":          {Usage, "", things},
		"things -h":       {OK, things, ""},
		"things add -h":   {OK, add, ""},
		"version":         {OK, "prog 1.2\n", ""},
		"--version":       {OK, "prog 1.2\n", ""},
		"help things add": {OK, add, ""},
	} {
		assert.Equal(t, want, try(t, line), line)
	}
}

func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"serv":             `prog: unknown command "serv" (did you mean "serve"?); see prog help`,
		"xyzzy --config x": `prog: unknown command "xyzzy"; see prog help`,
		"help serv":        `prog help: unknown command "serv" (did you mean "serve"?); see prog help`,
		"things ad":        `prog: unknown command "things ad" (did you mean "add"?); see prog things --help`,
		"things add":       "prog things add: NAME is missing; see prog things add --help",
		"things add a b":   `prog things add: unexpected "b"; see prog things add --help`,
		"things check --lod": `prog things check: unknown option --lod (did you mean "--loud"?); ` +
			"see prog things check --help",
		"things check -loud": `prog things check: unknown option -loud (did you mean "--loud"?); ` +
			"see prog things check --help",
		"serve":          "prog serve: --mode WORD is missing; see prog serve --help",
		"serve --mode":   "prog serve: --mode needs a value: --mode WORD; see prog serve --help",
		"serve --mode x": "prog serve: --mode=x: want plain; see prog serve --help",
		"serve --mode plain --wait=0": "prog serve: --wait=0: want a positive time with its unit, such as 500ms or 3s; " +
			"see prog serve --help",
	} {
		assert.Equal(t, outcome{Usage, "", want + "\n"}, try(t, line), line)
	}
}

func TestExitStatuses(t *testing.T) {
	for line, want := range map[string]outcome{
		"things add a":     {Failure, "", "prog things add: full\n"},
		"things check":     {Config, "", "prog things check: bad\n"},
		"things run a b c": {7, "", ""},
	} {
		assert.Equal(t, want, try(t, line), line)
	}
}

// An error may quote a hostile repository or host.
func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	var stderr strings.Builder
	assert.Equal(t, Failure, report(&stderr, "prog", Exit(Failure, errors.New("git:\n\tremote: \x1b]0;owned\a\r\u009bé\xff"))))
	assert.Equal(t, "prog: git:\n\tremote: ]0;owned\u00e9\ufffd\n", stderr.String())
}

func TestValues(t *testing.T) {
	for line, want := range map[string]string{
		"serve --mode plain": "/etc/settings [] 5m0s []\n",
		"serve n --mode=plain --config x --set a=1,2 --set b= --wait 3s": "x [a=1,2 b=] 3s [n]\n",
	} {
		assert.Equal(t, outcome{OK, want, ""}, try(t, line), line)
	}
}

func TestCompletions(t *testing.T) {
	for line, want := range map[string]string{
		"__complete th":               "things\tkeep things\n:4\n",
		"__complete help things ch":   "add\ncheck\nrun\n:4\n",
		"__complete serve --mode pl":  "plain\n:4\n",
		"__complete serve --set s":    "size=\n:6\n",
		"__complete serve --wait 1":   ":4\n",
		"__complete serve --config x": ":0\n", // which leaves files to the shell
		"__complete serve x":          ":4\n",
		"__complete serve --wa":       "--wait\thow long it waits:\n:4\n",
	} {
		got := try(t, line)
		assert.Equal(t, outcome{OK, want, ""}, outcome{got.status, got.stdout, ""}, line)
	}
}

func TestDescription(t *testing.T) {
	assert.Contains(t, try(t, describeName).stdout, `[{"name":"serve","summary":"serve","group":"Commands",`+
		`"synopsis":["prog serve [NAME] [--config FILE] [--set KEY=VALUE]... [--wait TIME] --mode WORD"],`+
		`"text":"Serves.",`+
		`"options":[{"tag":"--config FILE","text":"the file to read (/etc/settings)"}`)
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "4096": 4096, "3K": 3 << 10, "2G": 2 << 30, "8T": 8 << 40} {
		var n int64
		v := Bytes(&n)
		assert.Empty(t, v.String())
		assert.NoError(t, v.Set(text))
		assert.Equal(t, want, n)
	}
	for _, text := range []string{"", "0", "-1", "K", "1.5G", "2KG", "2k", "9000000T", "x"} {
		assert.ErrorContains(t, Bytes(new(int64)).Set(text), "want a positive number of bytes", text)
	}
	for n, want := range map[int64]string{0: "0", 1000: "1000", 4096: "4K", 3 << 20: "3M", 1 << 50: "1024T"} {
		assert.Equal(t, want, FormatBytes(n))
	}
}

func TestBriefTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", time.Hour: "1h", time.Hour + time.Minute: "1h1m",
		5 * time.Minute: "5m", 90 * time.Second: "1m30s", 10 * time.Second: "10s",
	} {
		assert.Equal(t, want, brief(d))
	}
}
