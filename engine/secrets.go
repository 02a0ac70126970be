package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/config"
	"metier/model/provider"
	"metier/record"
	"metier/run"
)

// scriptSecrets gives a skill's scripts the variables declared in the operator's configuration. A
// variable without a value is an error, because a script that needs it would fail for no obvious
// reason.
func (e *Engine) scriptSecrets(list []config.Secret) func(context.Context, metier.Skill) ([]record.Secret, error) {
	return func(_ context.Context, sk metier.Skill) ([]record.Secret, error) {
		var out []record.Secret
		for _, c := range list {
			if c.Skill != sk.ID.String() {
				if !strings.EqualFold(c.Skill, sk.Name) {
					continue
				}
				// The author of a repository chooses the names of its skills.
				if !sk.Tier.ByName() {
					return nil, fmt.Errorf("the secret %s is declared for the skill %s by its name, which does not cover %s, a skill of tier %s; specify its ID in the configuration if that skill needs the secret",
						c.Name, c.Skill, sk.ID, sk.Tier.Or())
				}
			}
			v, err := c.Value(e.Env)
			if err != nil {
				return nil, err
			}
			out = append(out, record.Secret{Name: c.Name, Value: v})
		}
		return out, nil
	}
}

// declared holds the secrets of the operator's configuration, and the passwords in base URLs. Those that were read once remain,
// because the configuration can become unreadable while a server runs.
type declared struct {
	mu      sync.Mutex
	secrets []record.Secret
	unread  bool // the configuration cannot be read, which was reported
}

func (d *declared) read(e *Engine) []record.Secret {
	op, err := config.Load(e.Env)
	d.mu.Lock()
	defer d.mu.Unlock()
	add := func(name, value string) {
		if s := (record.Secret{Name: name, Value: value}); !slices.Contains(d.secrets, s) {
			d.secrets = append(d.secrets, s)
		}
	}
	for _, c := range op.Secrets {
		if v, err := c.Value(e.Env); err == nil {
			add(c.Name, v)
		}
	}
	models := op.Models(e.Env)
	for _, p := range provider.All() {
		for _, word := range models.Passwords(p) {
			add(strings.ToUpper(p.Name)+"_BASE_URL", word)
		}
	}
	if err != nil && !d.unread {
		e.o.Notify(Notice{"secrets_unread", Warning, fmt.Sprintf("the configuration cannot be read, so only the secrets that are known already are redacted in records and logs: %v", err)})
	}
	d.unread = err != nil
	return slices.Clone(d.secrets)
}

// issued holds the open records, and the secrets given to scripts of a run, of its subagents, or of
// a server's sessions. A value read from a file may have changed since the records were opened, and
// a script may write it to the workspace.
type issued struct {
	mu      sync.Mutex
	secrets []record.Secret
	records []*run.Folder
}

func (x *issued) open(f *run.Folder) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f.KeepOut(x.secrets...)
	x.records = append(x.records, f)
}

func (x *issued) close(f *run.Folder) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.records = slices.DeleteFunc(x.records, func(r *run.Folder) bool { return r == f })
}

func (x *issued) all() []record.Secret {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.secrets)
}

// out registers the secrets of a script with all records before the script gets them, so that they
// are removed from the records.
func (x *issued) out(of func(context.Context, metier.Skill) ([]record.Secret, error)) func(context.Context, metier.Skill) ([]record.Secret, error) {
	return func(ctx context.Context, sk metier.Skill) ([]record.Secret, error) {
		list, err := of(ctx, sk)
		if err != nil {
			return nil, err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, s := range list {
			if slices.Contains(x.secrets, s) {
				continue
			}
			x.secrets = append(x.secrets, s)
			for _, f := range x.records {
				f.KeepOut(s)
			}
		}
		return list, nil
	}
}
