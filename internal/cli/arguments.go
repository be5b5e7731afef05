package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// arguments holds the arguments of a command against its usage line: NAME has to
// be there, [NAME] may be, and [NAME]... may be there several times.
func arguments(c *cobra.Command, args []string) error {
	words := argumentWords(c)
	for i, word := range words {
		switch {
		case strings.HasSuffix(word, "..."):
			return nil
		case i < len(args):
		case !strings.HasPrefix(word, "["):
			return Misuse(c, "%s is missing", word)
		}
	}
	if len(args) > len(words) {
		return Misuse(c, "unexpected %q", args[len(words)])
	}
	return required(c)
}

// required is the error about an option that has to be there and is not.
func required(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if isRequired(f) && !f.Changed {
			err = Misuse(c, "%s is missing", tag(f))
		}
	})
	return err
}

// isRequired reports whether cobra.MarkFlagRequired was called for the option.
func isRequired(f *pflag.Flag) bool { return f.Annotations[cobra.BashCompOneRequiredFlag] != nil }

// argumentWords are the words of the usage line after the command, without options.
func argumentWords(c *cobra.Command) []string {
	var words []string
	for _, word := range strings.Fields(c.Use)[1:] {
		if !strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "[OPTION]") {
			words = append(words, word)
		}
	}
	return words
}

// takesNoFile reports whether no argument of c can be the name of a file.
func takesNoFile(c *cobra.Command) bool {
	for _, word := range argumentWords(c) {
		if isFile(strings.Trim(word, "[].")) {
			return false
		}
	}
	return true
}

// isFile reports whether a word of a usage line stands for a path.
func isFile(word string) bool {
	switch word {
	case "FILE", "PATH", "DIR", "PROGRAM", "COMMAND", "ARG":
		return true
	}
	return false
}
