// Package figures holds what a bench has measured: as a file to compare later runs with, as a table on the terminal, and
// as the table of a document.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// Result is a whole run. Its methods belong to one goroutine.
type Result struct {
	// Ours is the program that is measured, and Beside the other one, in whose column a figure for comparison stands. Both
	// are keys of the values.
	Ours   string `json:"ours"`
	Beside string `json:"beside"`

	Date       string `json:"date"`
	Processors int    `json:"processors"`
	Go         string `json:"go"`
	Rows       []Row  `json:"rows"`
}

// Row is one measurement; every one is better when smaller.
type Row struct {
	What   string             `json:"what"`
	Unit   string             `json:"unit"`
	Limit  float64            `json:"limit,omitempty"` // 0: none
	Quiet  bool               `json:"quiet,omitempty"` // valid only on a quiet machine
	Values map[string]float64 `json:"values"`          // by target
}

// New returns the result of a run that begins now.
func New(ours, beside string) Result {
	return Result{
		Ours: ours, Beside: beside,
		Date: time.Now().UTC().Format(time.DateOnly), Processors: runtime.NumCPU(), Go: runtime.Version(),
	}
}

// Add adds a row.
func (r *Result) Add(one Row) { r.Rows = append(r.Rows, one) }

// One adds a row with a value of Ours. A limit of 0 is none.
func (r *Result) One(what, unit string, limit, value float64) {
	r.Add(Row{What: what, Unit: unit, Limit: limit, Values: map[string]float64{r.Ours: value}})
}

// Read reads the file that Write has written.
func Read(path string) (r Result, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

// Write writes the result as a file.
func (r *Result) Write(path string) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Table prints the rows beside those of the last result.
func (r *Result) Table(w io.Writer, last Result) error {
	before := map[string]float64{}
	for _, old := range last.Rows {
		before[old.What] = old.Values[r.Ours]
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "what\tmust\t%s\t%s\tratio\tlast\tchange\t\n", r.Ours, r.Beside)
	for _, one := range r.Rows {
		value := one.Values[r.Ours]
		must, beside, ratio, was, change, verdict := "–", "–", "–", "–", "–", ""
		if one.Limit > 0 {
			must = fmt.Sprintf("≤ %.4g", one.Limit)
			if value > one.Limit {
				verdict = "MISSED"
			}
		}
		if n, ok := one.Values[r.Beside]; ok {
			beside = fmt.Sprintf("%.4g", n)
			if n > 0 && !one.Quiet { // a difference of latencies has no ratio
				ratio = fmt.Sprintf("%.1f", value/n)
			}
		}
		if old, ok := before[one.What]; ok && old != 0 {
			was, change = fmt.Sprintf("%.4g", old), fmt.Sprintf("%+.0f %%", 100*(value-old)/old)
		}
		fmt.Fprintf(t, "%s\t%s\t%.4g %s\t%s\t%s\t%s\t%s\t%s\n", one.What, must, value, one.Unit, beside, ratio,
			was, change, verdict)
	}
	return t.Flush()
}

// Markdown is the table of a document.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d processors, %s. Figures marked * are of little worth unless the machine did nothing "+
		"else.\n\n", r.Date, r.Processors, r.Go)
	fmt.Fprintf(&b, "| what | must | %s | %s |\n|---|---|---|---|\n", r.Ours, r.Beside)
	for _, one := range r.Rows {
		must, beside, mark := "", "", ""
		if one.Limit > 0 {
			must = fmt.Sprintf("≤ %.4g", one.Limit)
		}
		if n, ok := one.Values[r.Beside]; ok {
			beside = fmt.Sprintf("%.3g", n)
		}
		if one.Quiet {
			mark = "*"
		}
		fmt.Fprintf(&b, "| %s%s | %s | %.4g %s | %s |\n", one.What, mark, must, one.Values[r.Ours], one.Unit, beside)
	}
	return b.String()
}
