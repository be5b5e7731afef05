// Command measure is `make measure`: it measures how far a reader of the tree
// has to go to find the place of a change. The doc comment of each table's
// function defines its measures.
//
//	measure [-C DIR] [-packages N] [-records N] [-from NAME]... [-steps] [-bars]
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// options are the command's flags.
type options struct {
	dir      string   // the top of the tree
	packages int      // how many packages the table of packages has
	records  int      // how many structs the table of records has
	from     []string // further functions whose walk is measured
	steps    bool     // print each step of the walks
	bars     bool     // compare the tree with the bars
}

func main() {
	var o options
	flag.StringVar(&o.dir, "C", ".", "measure the tree in `DIR`")
	flag.IntVar(&o.packages, "packages", 12, "list the `N` largest packages")
	flag.IntVar(&o.records, "records", 8, "list the `N` structs that most files touch")
	flag.BoolVar(&o.steps, "steps", false, "print each step of the walks")
	flag.BoolVar(&o.bars, "bars", false, "fail if the tree is over one of the bars")
	flag.Func("from", "walk from this function, too: `PACKAGE.FUNC` or PACKAGE.TYPE.METHOD", func(name string) error {
		o.from = append(o.from, name)
		return nil
	})
	flag.Parse()
	if err := measure(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measure(o options, out io.Writer) error {
	t, err := load(o.dir)
	if err != nil {
		return err
	}
	texts, err := readTexts(o.dir)
	if err != nil {
		return err
	}
	walks, err := t.walks(o.from)
	if err != nil {
		return err
	}
	tables := []table{
		t.packageTable(o.packages), t.typeTable(), t.recordTable(o.records), walkTable(walks),
		wordTable(texts), columnTable(texts),
	}
	for _, table := range tables {
		fmt.Fprintln(out, table.render())
	}
	if o.bars {
		table, over := barTable(t.measures(texts, walks))
		fmt.Fprintln(out, table.render())
		if len(over) > 0 {
			return fmt.Errorf("over a bar of test/measure/bars.go:\n  %s", strings.Join(over, "\n  "))
		}
	}
	if o.steps {
		for _, w := range walks {
			fmt.Fprintf(out, "%s\n  %s\n\n", w.name, strings.Join(w.lines(), "\n  "))
		}
	}
	return nil
}
