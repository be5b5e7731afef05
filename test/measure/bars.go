package main

import (
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bar is a measure of the whole tree and the most that it may be. A change that needs more makes room first.
type bar struct {
	name string
	most float64
	goal float64 // where most is to go; a change that comes nearer lowers most
}

// bars are the measures that hold the tree. Idioms are counted in comments of the product.
var bars = []bar{
	// 155, and not 145, for Web Push, limits and responses of several hosts, and the hands of workers.
	{"lines of the product, in thousands", 155, 101},
	{"share of the biggest room, in percent", 27, 27},
	{"imports that run back between rooms", 0, 0},
	{"packages in cmd/internal", 1, 3},
	{"files of the largest package", 20, 20},
	{"files of a package, mean", 7, 7},
	{"methods of the largest type", 20, 20},
	{"POST /v1/chat/completions to the turn, steps", 22, 27},
	{"POST /v1/chat/completions to the turn, files", 11, 14},
	{"POST /v1/chat/completions to the turn, returns", 2, 4},
	{"POST /v1/responses to the turn, steps", 23, 30},
	{"POST /v1/responses to the turn, files", 12, 16},
	{"POST /v1/responses to the turn, returns", 2, 5},
	{"lines over 120 columns per 1000", 2, 2},
	{"words of speech in comments", 40, 40},
	{"that of, those of per 1000 lines of comments", 3, 3},
	{"is none, are none per 1000 lines of comments", 3, 3},
	{"what per 1000 lines of comments", 3, 3},
	{"who, whose per 1000 lines of comments", 3, 3},
	{"likewise per 1000 lines of comments", 3, 3},
	{"beside per 1000 lines of comments", 3, 3},
	{"comes, came per 1000 lines of comments", 3, 3},
}

// idioms are turns of speech that make a comment hard to read, as STYLE.md has them.
var idioms = map[string]*regexp.Regexp{
	"that of, those of": regexp.MustCompile(`\b(that|those) of\b`),
	"is none, are none": regexp.MustCompile(`\b(is|are|was) none\b`),
	"what":              regexp.MustCompile(`\b[Ww]hat\b`),
	"who, whose":        regexp.MustCompile(`\b(whose|who|whoever)\b`),
	"likewise":          regexp.MustCompile(`\blikewise\b`),
	"beside":            regexp.MustCompile(`\bbeside\b`),
	"comes, came":       regexp.MustCompile(`\b(comes|came|come)\b`),
}

// barTable shows the bars. The names are those that are over their bar.
func barTable(now map[string]float64) (out table, over []string) {
	out = table{title: "bars", heads: []string{"measure", "now", "most", "goal"}}
	for _, b := range bars {
		value, measured := now[b.name]
		if !measured || value > b.most {
			over = append(over, fmt.Sprintf("%s: %s, and at most %s", b.name, short(value), short(b.most)))
		}
		out.add(b.name, short(value), short(b.most), short(b.goal))
	}
	return out, over
}

func short(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// tenths rounds to one decimal.
func tenths(f float64) float64 { return float64(int(f*10+0.5)) / 10 }

// measures returns the value of each bar.
func (t *tree) measures(texts []text, walks []*walk) map[string]float64 {
	now := map[string]float64{
		"imports that run back between rooms": float64(t.back()),
		"packages in cmd/internal":            0,
	}
	rooms, all, files := map[string]int{}, 0, 0
	for _, p := range t.packages {
		rooms[roomOf(p.path)] += t.lines(p)
		all, files = all+t.lines(p), files+len(p.files)
		atLeast(now, "files of the largest package", len(p.files))
		for _, named := range p.named() {
			atLeast(now, "methods of the largest type", named.NumMethods())
		}
		if strings.HasPrefix(p.path, "cmd/internal/") {
			now["packages in cmd/internal"]++
		}
	}
	biggest := slices.Max(slices.Collect(maps.Values(rooms)))
	now["lines of the product, in thousands"] = tenths(float64(all) / 1000)
	now["share of the biggest room, in percent"] = float64(100 * biggest / all)
	now["files of a package, mean"] = tenths(float64(files) / float64(len(t.packages)))
	for _, w := range walks {
		entered := w.entered()
		now[w.name+", steps"], now[w.name+", files"] = float64(len(w.steps)), float64(len(entered))
		for _, times := range entered {
			now[w.name+", returns"] += float64(times - 1)
		}
	}
	measureTexts(now, texts)
	return now
}

func atLeast(now map[string]float64, name string, n int) { now[name] = max(now[name], float64(n)) }

func roomOf(path string) string {
	room, _, _ := strings.Cut(path, "/")
	return room
}

// back is the number of imports that lead from a room to one from which it can be reached.
func (t *tree) back() int {
	arrows, rooms := map[[2]string]int{}, graph{}
	for _, p := range t.packages {
		from := roomOf(p.path)
		if rooms[from] == nil {
			rooms[from] = map[string]bool{}
		}
		for _, imported := range p.types.Imports() {
			to := t.byPath[imported.Path()]
			if to == nil || roomOf(to.path) == from {
				continue
			}
			rooms[from][roomOf(to.path)] = true
			arrows[[2]string{from, roomOf(to.path)}]++
		}
	}
	order := slices.SortedFunc(maps.Keys(arrows), func(a, b [2]string) int { return cmp.Compare(arrows[a], arrows[b]) })
	back := 0
	for _, arrow := range order { // the rarest arrows of a cycle are those that run back
		delete(rooms[arrow[0]], arrow[1])
		if reaches(rooms, arrow[1], arrow[0], map[string]bool{}) {
			back += arrows[arrow]
			continue
		}
		rooms[arrow[0]][arrow[1]] = true
	}
	return back
}

func reaches(g graph, from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for next := range g[from] {
		if !seen[next] && reaches(g, next, to, seen) {
			return true
		}
	}
	return false
}

func measureTexts(now map[string]float64, texts []text) {
	lines, over, comments := 0, 0, 0
	speech, found := words{}, map[string]int{}
	for _, t := range texts {
		if t.kind != productGo {
			continue
		}
		lines, over = lines+strings.Count(t.data, "\n"), over+wide(t.data)
		speech.count(t)
		for _, comment := range commentsOf(t) {
			comments += 1 + strings.Count(comment, "\n")
			for name, idiom := range idioms {
				found[name] += len(idiom.FindAllString(comment, -1))
			}
		}
	}
	now["lines over 120 columns per 1000"] = tenths(1000 * float64(over) / float64(max(lines, 1)))
	now["words of speech in comments"] = float64(speech.comments)
	for name := range idioms {
		now[name+" per 1000 lines of comments"] = tenths(1000 * float64(found[name]) / float64(max(comments, 1)))
	}
}

// commentsOf returns the comments of a Go file.
func commentsOf(t text) (comments []string) {
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile(t.path, -1, len(t.data)), []byte(t.data), nil, scanner.ScanComments)
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return comments
		case token.COMMENT:
			comments = append(comments, literal)
		}
	}
}
