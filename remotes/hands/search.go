package hands

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// mostListed bounds the names of files that a search reads, in bytes, and mostFound its results.
	mostListed, mostFound = 4 << 20, 50
	// mostNames bounds the number of the names, and mostQuery a query, in bytes: the session chooses its names.
	mostNames, mostQuery = 50_000, 256
	// mostSearches bounds the searches of all clients at the same time.
	mostSearches = 32
	// fresh is how long a list of files holds for a search.
	fresh = 5 * time.Second
)

// list prints the files of a directory, of a repository without those that git ignores.
const list = `git -C "$1" ls-files --cached --others --exclude-standard 2>/dev/null || { cd "$1" && find . -type f; }`

// searchParams are the parameters of the requests of a search.
type searchParams struct {
	Query string   `json:"query"`
	Roots []string `json:"roots"`
	ID    string   `json:"sessionId"`
}

// search is a search of a client, with the files that were listed last.
type search struct {
	root  string
	files []string
	at    time.Time
}

// found is a result, as codex has it.
type found struct {
	Root    string `json:"root"`
	Path    string `json:"path"`
	Kind    string `json:"match_type"`
	Name    string `json:"file_name"`
	Score   int    `json:"score"`
	Indices []int  `json:"indices"`
}

// rootOf is the directory that is searched: clients name one of their own machine, too.
func rootOf(roots []string) string {
	if len(roots) > 0 && (roots[0] == Directory || strings.HasPrefix(roots[0], Directory+"/")) {
		return path.Clean(roots[0])
	}
	return Directory
}

// search is fuzzyFileSearch.
func (g *Gate) search(ctx context.Context, of Client, params []byte) error {
	p, err := decode[searchParams](params)
	if err != nil {
		return err
	}
	s := &search{root: rootOf(p.Roots)}
	if err := g.list(ctx, s); err != nil {
		return err
	}
	return of.Answer(map[string]any{"files": g.find(s, p.Query)})
}

// list lists the files of a search, unless it has a list that is fresh.
func (g *Gate) list(ctx context.Context, s *search) error {
	if time.Since(s.at) < fresh {
		return nil
	}
	ended, err := g.Hands.Execute(ctx, Process{Own: true, Cap: mostListed, Command: Command{Dir: Directory,
		Argv: []string{"/bin/sh", "-c", list, "sh", s.root}}})
	if err != nil {
		return err
	}
	s.files, s.at = names(string(ended.Stdout)), time.Now()
	return nil
}

// names are the first names of a listing.
func names(listing string) []string {
	list := strings.SplitN(strings.TrimSpace(listing), "\n", mostNames+1)
	return slices.Clone(list[:min(len(list), mostNames)])
}

// startSearch is fuzzyFileSearch/sessionStart.
func (g *Gate) startSearch(_ context.Context, of Client, params []byte) error {
	p, err := decode[searchParams](params)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.searches == nil {
		g.searches = map[string]*search{}
	}
	if len(g.searches) >= mostSearches {
		return fmt.Errorf("%d searches go on: end one", mostSearches)
	}
	g.searches[of.Name()+" "+p.ID] = &search{root: rootOf(p.Roots)}
	return of.Answer(struct{}{})
}

// updateSearch is fuzzyFileSearch/sessionUpdate.
func (g *Gate) updateSearch(ctx context.Context, of Client, params []byte) error {
	p, err := decode[searchParams](params)
	if err != nil {
		return err
	}
	key := of.Name() + " " + p.ID
	g.mu.Lock()
	known, is := g.searches[key]
	var s search
	if is {
		s = *known
	}
	g.mu.Unlock()
	if !is {
		return fmt.Errorf("there is no search %.64q", p.ID)
	}
	if err := of.Answer(struct{}{}); err != nil {
		return err
	}
	if err := g.list(ctx, &s); err == nil {
		g.mu.Lock()
		if g.searches[key] == known {
			*known = s
		}
		g.mu.Unlock()
	}
	_ = of.Notify("fuzzyFileSearch/sessionUpdated", map[string]any{ // it may have gone
		"sessionId": p.ID, "query": p.Query, "files": g.find(&s, p.Query),
	})
	return of.Notify("fuzzyFileSearch/sessionCompleted", map[string]any{"sessionId": p.ID})
}

// stopSearch is fuzzyFileSearch/sessionStop.
func (g *Gate) stopSearch(_ context.Context, of Client, params []byte) error {
	p, err := decode[searchParams](params)
	if err != nil {
		return err
	}
	g.mu.Lock()
	delete(g.searches, of.Name()+" "+p.ID)
	g.mu.Unlock()
	return of.Answer(struct{}{})
}

func ofClient(key, client string) bool { return strings.HasPrefix(key, client+" ") }

// find is search.find of one search at a time: a person writes faster than a large listing is searched.
func (g *Gate) find(s *search, query string) []found {
	g.finding.Lock()
	defer g.finding.Unlock()
	return s.find(query)
}

// find returns the files that have the letters of the query in their order, the best first.
func (s *search) find(query string) []found {
	wanted := []rune(strings.ToLower(query[:min(len(query), mostQuery)]))
	best := []found{}
	for _, file := range s.files {
		file = strings.TrimPrefix(file, "./")
		if indices, score := match(file, wanted); file != "" && score > 0 {
			best = append(best, found{
				Root: s.root, Path: file, Kind: "file", Name: path.Base(file), Score: score, Indices: indices,
			})
		}
		if len(best) == 2*mostFound {
			best = sorted(best)
		}
	}
	return sorted(best)
}

// sorted are the best of a list.
func sorted(list []found) []found {
	slices.SortStableFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(len(a.Path), len(b.Path)),
			strings.Compare(a.Path, b.Path))
	})
	return list[:min(len(list), mostFound)]
}

// match returns the places of the letters of a query, in lower case, in a path, the last possible ones, so that the
// name of the file counts most. A score of 0 is no match.
func match(file string, wanted []rune) (indices []int, score int) {
	letters := []rune(strings.ToLower(file))
	indices = make([]int, len(wanted))
	at := len(letters) - 1
	score = 1
	for i := len(wanted) - 1; i >= 0; i-- {
		for at >= 0 && letters[at] != wanted[i] {
			at--
		}
		if at < 0 {
			return nil, 0
		}
		indices[i] = at
		score += 16
		if i+1 < len(wanted) && indices[i+1] == at+1 {
			score += 16 // beside the next one
		}
		if at == 0 || letters[at-1] == '/' {
			score += 8 // at the beginning of a name
		}
		at--
	}
	if len(indices) > 0 && !slices.Contains(letters[indices[0]:], '/') {
		score += 16 // in the name of the file alone
	}
	return indices, score
}
