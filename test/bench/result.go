package main

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

const ours = "codex-proxy"

// result is a whole run.
type result struct {
	Date       string `json:"date"`
	Processors int    `json:"processors"`
	Go         string `json:"go"`
	Rows       []row  `json:"rows"`
}

// row is one measurement; every one is better when smaller.
type row struct {
	What   string             `json:"what"`
	Unit   string             `json:"unit"`
	Limit  float64            `json:"limit,omitempty"` // 0: none
	Quiet  bool               `json:"quiet,omitempty"` // valid only on a quiet machine
	Values map[string]float64 `json:"values"`          // by target
}

func newResult() result {
	return result{Date: time.Now().UTC().Format(time.DateOnly), Processors: runtime.NumCPU(), Go: runtime.Version()}
}

func (r *result) add(one row) { r.Rows = append(r.Rows, one) }

func (r *result) one(what, unit string, limit, value float64) {
	r.add(row{What: what, Unit: unit, Limit: limit, Values: map[string]float64{ours: value}})
}

func readResult(path string) (r result, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

func (r *result) write(path string) error {
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// table prints the rows beside those of the last result.
func (r *result) table(w io.Writer, last result) error {
	before := map[string]float64{}
	for _, old := range last.Rows {
		before[old.What] = old.Values[ours]
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tmust\tcodex-proxy\tnginx\tratio\tlast\tchange\t")
	for _, one := range r.Rows {
		value := one.Values[ours]
		must, nginx, ratio, was, change, verdict := "–", "–", "–", "–", "–", ""
		if one.Limit > 0 {
			must = fmt.Sprintf("≤ %.4g", one.Limit)
			if value > one.Limit {
				verdict = "MISSED"
			}
		}
		if n, ok := one.Values["nginx"]; ok {
			nginx = fmt.Sprintf("%.4g", n)
			if n > 0 && !one.Quiet { // a difference of latencies has no ratio
				ratio = fmt.Sprintf("%.1f", value/n)
			}
		}
		if old, ok := before[one.What]; ok && old != 0 {
			was, change = fmt.Sprintf("%.4g", old), fmt.Sprintf("%+.0f %%", 100*(value-old)/old)
		}
		fmt.Fprintf(t, "%s\t%s\t%.4g %s\t%s\t%s\t%s\t%s\t%s\n", one.What, must, value, one.Unit, nginx, ratio,
			was, change, verdict)
	}
	return t.Flush()
}

// markdown is the table of docs/performance.md.
func (r *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d processors, %s. Figures marked * are of little worth unless the machine did nothing "+
		"else.\n\n", r.Date, r.Processors, r.Go)
	b.WriteString("| what | must | codex-proxy | nginx |\n|---|---|---|---|\n")
	for _, one := range r.Rows {
		must, nginx, mark := "", "", ""
		if one.Limit > 0 {
			must = fmt.Sprintf("≤ %.4g", one.Limit)
		}
		if n, ok := one.Values["nginx"]; ok {
			nginx = fmt.Sprintf("%.3g", n)
		}
		if one.Quiet {
			mark = "*"
		}
		fmt.Fprintf(&b, "| %s%s | %s | %.4g %s | %s |\n", one.What, mark, must, one.Values[ours], one.Unit, nginx)
	}
	return b.String()
}
