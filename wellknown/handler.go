package wellknown

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"metier"
)

// Options configure [Site.Handler].
type Options struct {
	// Search ranks skills that keep allows. nil: nothing is found.
	Search func(ctx context.Context, query string, limit int, keep func(*metier.Skill) bool) (metier.Found, error)
	// Hosts are the names, without a port, by which clients may call the server. nil: any. A server for
	// its own machine needs them: otherwise, a web page could read the skills under a name of its own.
	Hosts []string
	// Origins are the origins of web pages that may read the skills; "*": all. nil: none.
	Origins []string
}

// The default and the maximum number of search results, and the maximum length of a query in bytes.
const (
	searchShown = 10
	searchMost  = 100
	queryMost   = 512
)

// Handler returns the handler of a site. It answers GET and HEAD requests.
func (s *Site) Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/search", func(w http.ResponseWriter, r *http.Request) { s.search(w, r, o) })
	mux.HandleFunc("/", s.file)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
		h.Set("Cache-Control", "no-cache") // a client may keep a file, and asks whether it changed
		if len(o.Origins) > 0 {
			h.Add("Vary", "Origin")
		}
		if origin := r.Header.Get("Origin"); slices.Contains(o.Origins, "*") {
			h.Set("Access-Control-Allow-Origin", "*")
		} else if origin != "" && slices.Contains(o.Origins, origin) {
			h.Set("Access-Control-Allow-Origin", origin)
		}
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "use GET or HEAD", http.StatusMethodNotAllowed)
		case o.Hosts != nil && !slices.Contains(o.Hosts, hostOf(r)):
			http.Error(w, "this server does not have this name; its operator can add it", http.StatusMisdirectedRequest)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// hostOf returns the host of a request without a port, in lower case and without brackets.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// file serves a file of the site.
func (s *Site) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	f, ok := s.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	in, err := s.root.Open(filepath.FromSlash(name))
	if err != nil {
		http.Error(w, "the file cannot be read", http.StatusInternalServerError)
		return
	}
	defer in.Close()
	w.Header().Set("Content-Type", f.media)
	w.Header().Set("ETag", strconv.Quote(f.digest))
	http.ServeContent(w, r, "", time.Time{}, in)
}

// result is a search result as skills.sh returns it.
type result struct {
	ID          string `json:"id"`
	SkillID     string `json:"skillId"`
	Name        string `json:"name"`
	Source      string `json:"source"` // what a client installs from
	Installs    int    `json:"installs"`
	Description string `json:"description"`
}

// search answers /api/search?q=QUERY&limit=NUMBER. Skills of a site have no owner, so that a search
// with one finds nothing.
func (s *Site) search(w http.ResponseWriter, r *http.Request, o Options) {
	q := r.URL.Query()
	query, limit := strings.TrimSpace(q.Get("q")), searchShown
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			answer(w, http.StatusBadRequest, map[string]string{"error": "limit is not a positive number"})
			return
		}
		limit = min(n, searchMost)
	}
	if query == "" || len(query) > queryMost {
		answer(w, http.StatusBadRequest, map[string]string{"error": "q is missing, or has more than " + strconv.Itoa(queryMost) + " bytes"})
		return
	}
	found := metier.Found{}
	if o.Search != nil && q.Get("owner") == "" {
		var err error
		found, err = o.Search(r.Context(), query, limit, func(sk *metier.Skill) bool { return s.ids[sk.ID] })
		if err != nil {
			e := map[string]string{"error": err.Error()}
			answer(w, metier.KindOf(err).HTTPStatus(), e)
			return
		}
	}
	results := []result{}
	for _, sk := range found.Skills {
		results = append(results, result{ID: sk.Name, SkillID: sk.Name, Name: sk.Name, Source: "http://" + r.Host, Description: sk.Description})
	}
	answer(w, http.StatusOK, struct {
		Query  string   `json:"query"`
		Skills []result `json:"skills"`
		Count  int      `json:"count"`
	}{query, results, len(results)})
}

// answer writes a response as JSON.
func answer(w http.ResponseWriter, status int, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "the result cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}
