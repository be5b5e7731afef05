package cli

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// value is a flag's value. Its type, in the sense of pflag, is the word that stands
// for it in help texts.
type value struct {
	word string
	set  func(string) error
	get  func() string
}

// String implements pflag.Value.
func (v value) String() string { return v.get() }

// Set implements pflag.Value.
func (v value) Set(text string) error { return v.set(text) }

// Type implements pflag.Value.
func (v value) Type() string { return v.word }

// Text is a value that is taken as it is. FILE, PATH and DIR are words for files, which shells complete. The value in p
// is the default.
func Text(p *string, word string) pflag.Value {
	return value{word, func(text string) error { *p = text; return nil }, func() string { return *p }}
}

// Parsed is a value that set reads. The text is the default, for the help alone.
func Parsed(word, text string, set func(string) error) pflag.Value {
	return value{word, set, func() string { return text }}
}

// Duration is a positive time. The value in p is the default, unless it is zero.
func Duration(p *time.Duration) pflag.Value {
	return value{"TIME", func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return errors.New("want a positive time with its unit, such as 500ms or 3s")
		}
		*p = d
		return nil
	}, func() string { return brief(*p) }}
}

// brief is a time without the units that are zero.
func brief(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Bytes is a positive number of bytes, with K, M, G or T for powers of 1024. The value in p is the default, unless it
// is zero.
func Bytes(p *int64) pflag.Value {
	return value{"SIZE", func(text string) error {
		n, err := parseBytes(text)
		if err != nil || n <= 0 {
			return errors.New("want a positive number of bytes, such as 4096, 512K, 64M or 2G")
		}
		*p = n
		return nil
	}, func() string {
		if *p == 0 {
			return ""
		}
		return FormatBytes(*p)
	}}
}

// units are the units of Bytes, each 1024 times the one before it.
const units = "KMGT"

func parseBytes(text string) (int64, error) {
	number, shift := text, 0
	if i := strings.IndexAny(text, units); i >= 0 && i == len(text)-1 {
		number, shift = text[:i], 10*(strings.IndexByte(units, text[i])+1)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err == nil && n > math.MaxInt64>>shift {
		return 0, strconv.ErrRange
	}
	return n << shift, err
}

// FormatBytes is a number of bytes as Bytes reads it, and exact.
func FormatBytes(n int64) string {
	unit := ""
	for i := range units {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, units[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

// texts is a value of an option that may be given several times.
type texts struct{ value }

// Texts collects the values of an option that may be given several times.
func Texts(p *[]string, word string) pflag.Value {
	add := func(text string) error { *p = append(*p, text); return nil }
	return texts{value{word, add, func() string { return "" }}}
}

// completeFiles lets shells complete files as values of the options of c that are
// files, and nothing for the others, unless the command has something better.
func completeFiles(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !isFile(f.Value.Type()) && f.NoOptDefVal == "" {
			// An error means that the command has registered a function of its own.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
		}
	})
}

// Complete completes the value of an option of c by words.
func Complete(c *cobra.Command, option string, words ...string) {
	// An error means that c lacks the option, which the first TAB in a test shows.
	_ = c.RegisterFlagCompletionFunc(option, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteBegin completes the beginning of the value of an option of c by words, after
// which the value goes on.
func CompleteBegin(c *cobra.Command, option string, words ...string) {
	directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	// An error means that c lacks the option, which the first TAB in a test shows.
	_ = c.RegisterFlagCompletionFunc(option, cobra.FixedCompletions(words, directive))
}
