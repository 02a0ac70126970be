// Command http serves runs over HTTP: an example of your own surface, which is a
// thin client of the engine. Each user has an engine, so that users share nothing.
//
//	POST /runs {"prompt": "..."}            start a run
//	GET  /runs                              list the runs of the user
//	GET  /runs/{id}/events?after=N          follow a run, as server-sent events
//	POST /runs/{id}/answer {"allow": true}  answer the open question, and continue
//	POST /runs/{id}/cancel                  stop a run
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"metier"
	"metier/config"
	"metier/engine"
	"metier/policy"
)

func main() {
	address := flag.String("http", "127.0.0.1:8080", "address to serve")
	data := flag.String("data", "data", "folder for each user's workspace and state")
	tokens := flag.String("tokens", "", "file with USER:TOKEN,USER:TOKEN")
	model := flag.String("model", "", "PROVIDER:NAME")
	flag.Parse()
	list, err := os.ReadFile(*tokens) // command-line arguments are visible to every user of the machine
	if err != nil {
		log.Fatal(err)
	}
	s, err := newServer(*data, strings.TrimSpace(string(list)), *model, os.Environ())
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s", *address)
	log.Fatal((&http.Server{Addr: *address, Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}).ListenAndServe())
}

// user is one principal: an engine, a workspace, and the runs under way.
type user struct {
	engine  *engine.Engine
	records string
	mu      sync.Mutex
	cancel  map[string]context.CancelFunc
	work    sync.WaitGroup
}

type server struct {
	users map[string]*user // by token
	model string
}

func newServer(data, tokens, model string, environ []string) (*server, error) {
	s := &server{users: map[string]*user{}, model: model}
	for pair := range strings.SplitSeq(tokens, ",") {
		name, token, ok := strings.Cut(pair, ":")
		if !ok || name != filepath.Base(name) || name == "." || name == ".." || len(token) < 16 {
			return nil, errors.New("-tokens must name a file of USER:TOKEN,..., with tokens of at least 16 characters")
		}
		dir, err := filepath.Abs(filepath.Join(data, name))
		if err != nil {
			return nil, err
		}
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "workspace"), 0o700), os.MkdirAll(filepath.Join(dir, "home"), 0o700)); err != nil {
			return nil, err
		}
		env := config.NewEnv(environ, filepath.Join(dir, "workspace"))
		env.Vars["HOME"], env.Vars["METIER_PRINCIPAL"] = filepath.Join(dir, "home"), name
		for _, shared := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
			delete(env.Vars, shared)
		}
		s.users[token] = &user{engine: engine.New(env, engine.Options{}), records: filepath.Join(dir, "records"), cancel: map[string]context.CancelFunc{}}
	}
	return s, nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(*user, http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			u := s.users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
			if u == nil {
				reply(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized"})
			} else if err := do(u, w, r); err != nil {
				reply(w, metier.KindOf(err).HTTPStatus(), map[string]string{"error": metier.CodeOf(err), "message": err.Error()})
			}
		})
	}
	handle("POST /runs", s.start)
	handle("GET /runs", list)
	handle("GET /runs/{id}/events", follow)
	handle("POST /runs/{id}/answer", answer)
	handle("POST /runs/{id}/cancel", cancel)
	return mux
}

func (s *server) start(u *user, w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Prompt string
		Tools  []string
	}
	if err := decode(r, &body); err != nil {
		return err
	}
	p, err := u.engine.Plan(r.Context(), engine.Request{Surface: "http", Prompt: body.Prompt, Model: s.model, Tools: body.Tools, Artifacts: u.records, Batch: true, Park: true,
		Confined: true}) // the user answers the questions, and other users' files are beside the workspace
	if err != nil {
		return err
	}
	id := u.engine.RunID()
	return u.drive(w, id, func(ctx context.Context) (*engine.Run, error) { return u.engine.Start(ctx, p, id, engine.Hooks{}) })
}

// drive opens a run and works on it in the background.
func (u *user) drive(w http.ResponseWriter, id string, open func(context.Context) (*engine.Run, error)) error {
	ctx, stop := context.WithCancel(context.Background())
	run, err := open(ctx)
	if err != nil {
		stop()
		return err
	}
	u.mu.Lock()
	u.cancel[id] = stop
	u.mu.Unlock()
	u.work.Go(func() {
		defer stop()
		_, err := run.Drive(ctx)
		u.mu.Lock()
		delete(u.cancel, id) // while the record is locked: an answer that opens it again comes after
		u.mu.Unlock()
		if err = errors.Join(err, run.Close(context.Background())); err != nil {
			log.Printf("run %s: %v", id, err)
		}
	})
	return reply(w, http.StatusAccepted, map[string]string{"run": id})
}

func list(u *user, w http.ResponseWriter, r *http.Request) error {
	runs, err := u.engine.Runs(r.Context(), u.records)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, runs)
}

func follow(u *user, w http.ResponseWriter, r *http.Request) error {
	after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64) // 0: from the start
	w.Header().Set("Content-Type", "text/event-stream")
	for e, err := range u.engine.Follow(r.Context(), u.records, r.PathValue("id"), after) {
		if err != nil {
			return err
		}
		data, err := json.Marshal(e.Event)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data)
		w.(http.Flusher).Flush()
	}
	return nil
}

func answer(u *user, w http.ResponseWriter, r *http.Request) error {
	var body struct{ Allow bool }
	if err := decode(r, &body); err != nil {
		return err
	}
	id := r.PathValue("id")
	if _, _, err := u.engine.Answer(r.Context(), u.records, id, engine.AnswerRequest{Allow: body.Allow, Scope: policy.ScopeOnce, Surface: "http"}); err != nil {
		return err
	}
	return u.drive(w, id, func(ctx context.Context) (*engine.Run, error) {
		return u.engine.Resume(ctx, u.records, id, engine.ResumeOptions{Surface: "http"}, engine.Hooks{})
	})
}

func cancel(u *user, w http.ResponseWriter, r *http.Request) error {
	u.mu.Lock()
	stop := u.cancel[r.PathValue("id")]
	u.mu.Unlock()
	if stop == nil {
		return metier.Errorf(metier.NotFound, "run_not_found", "", "no run %q is under way", r.PathValue("id"))
	}
	stop()
	return reply(w, http.StatusAccepted, map[string]string{"run": r.PathValue("id")})
}

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(into); err != nil {
		return metier.Errorf(metier.Invalid, "body_invalid", "", "read the body: %w", err)
	}
	return nil
}

func reply(w http.ResponseWriter, code int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	return json.NewEncoder(w).Encode(body)
}
