package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/exectool"
	"metier/internal/digest"
	"metier/mcp/host"
	"metier/mcp/host/hosttest"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// served opens the skills of a script, as the mount that a run creates for
// them.
func served(t *testing.T, label string, s hosttest.Script) (*hosttest.Server, *host.Host, metier.Mount) {
	t.Helper()
	far := hosttest.New(s)
	srv := overHTTP(t, label, far)
	srv.Skills = true
	h := open(t, nil, srv)
	src := h.Source(label)
	if src == nil {
		t.Fatalf("no skills: %v", h.Notes())
	}
	return far, h, host.Mount(label, src)
}

func build(t *testing.T, mounts ...metier.Mount) *metier.Snapshot {
	t.Helper()
	set := standard(t)
	n, err := metier.Build(t.Context(), mounts, set.Parse, set.Names, set.Read.IndexRoot, false)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func one(t *testing.T, n *metier.Snapshot, name string) metier.Skill {
	t.Helper()
	sk, err := n.Find(name)
	if err != nil {
		t.Fatalf("%v; %v", err, n.Diagnostics())
	}
	return sk
}

// fetch reads a file as a run does.
func fetch(t *testing.T, src metier.Source, place, file string) (string, error) {
	t.Helper()
	b, err := src.Open(t.Context(), place)
	if err != nil {
		return "", err
	}
	defer b.Close()
	f, err := b.Open(t.Context(), file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

// Secrets are removed from the frontmatter before anything escapes it for a model.
func TestSource_RemovesSecretsFromFrontmatter(t *testing.T) {
	t.Parallel()
	const secret = `postgres://ann:pw0123@db/x?a=1&b="2"`
	k := hosttest.Plain("deploy", nil)
	k.Front["description"] = "Queries " + secret + "."
	k.Files["SKILL.md"] = hosttest.Text("deploy", `'Queries `+secret+`.'`, "Do it.")
	srv := overHTTP(t, "s", hosttest.New(hosttest.Script{Skills: []hosttest.Skill{k}}))
	srv.Skills, srv.Headers = true, map[string]string{"X-Database": secret}
	src := open(t, nil, srv).Source("s")
	n := 0
	for head, err := range src.List(t.Context()) {
		if n++; err != nil || head.Front.Description != "Queries [redacted:s.headers.X-Database]." {
			t.Errorf("%+v, %v", head, err)
			continue
		}
		if text, err := fetch(t, src, head.Path, "SKILL.md"); err != nil || !strings.Contains(text, "Do it.") { // it is compared as served
			t.Errorf("%q, %v", text, err)
		}
	}
	if n != 1 {
		t.Errorf("%d skills", n)
	}
}

func reads(s *hosttest.Server) int {
	n := 0
	for _, r := range s.Requests() {
		if strings.HasPrefix(r, "resources/read") {
			n++
		}
	}
	return n
}

// with changes an honest skill into a false one.
func with(change func(*hosttest.Skill)) hosttest.Skill {
	k := hosttest.Plain("deploy", map[string]string{"references/a.md": "honest"})
	change(&k)
	return k
}

// The rules of SEP-2640 for hosts, by the ids of this table. The table was written
// before the servers that break the rules. Each has a server that breaks it and
// the same call on an honest one.
//
//	verify-digest      the bytes of a listed file match the digest of the entry
//	verify-size        and its size
//	verify-unlisted    a file that the entry does not list fails verification
//	verify-front       the frontmatter of SKILL.md is that of the entry, field by field
//	entry-resources    an entry without a list of files is not loaded
//	entry-complete     a list without SKILL.md, with a repeated file, or with a file outside the folder is not loaded
//	entry-name         the last part of the address is the name
//	limit-files        more than 512 files are refused and reported; 512 are accepted
//	limit-bytes        more than 16 MiB are refused and reported
//	no-prefetch        nothing is fetched before it is opened
//	held-entry         reads follow the entry of the first read
//	revoked            another set of files is another tree, so that approvals end
//	dynamic            without digests there is no tree that an approval could name
//	identity           two servers with one address are two skills
//	server-label       the label is ours, whatever serverInfo contains
//	no-shadow          a bare name is never a skill of a server
//	same-name          two skills with one name in one list are both kept
//	origin-tagged      text that enters the context names its origin
//	origin-scoped      a skill of one server cannot read from another
//	no-execution       a program waits for an approval while such a skill is active
//	no-widening        allowed-tools approve nothing
//	read-no-load       reading SKILL.md does not activate the skill
//	unlisted-load      a skill that is not listed is loaded by its address
//	directory          a directory's list adds no file, and is never requested, whether the server declares it or not
//	tier               such skills are third_party, whatever their digests
//	declared           skills are requested only if the extension is declared
//	authority          the first part of an address is not a host
//	scheme             its entry makes an address a skill, not its scheme
//	nested             a SKILL.md below another is text; its frontmatter has no effect, and its approval is separate
//	content-bound      a lasting approval is bound to every file; a rule is not an approval
//	one-reading        an entry that could be read in two ways is not loaded
//	cache-checked      files on disk are hashed at every read
//	cache-apart        and are stored by server and address, where no skill is searched for
//	cache-origin       files from there are still the server's
func TestEntriesThatLieAreRefused(t *testing.T) {
	t.Parallel()
	many := func(n int) []any {
		out := []any{}
		for i := range n {
			p := fmt.Sprintf("f%d", i)
			if i == 0 {
				p = "SKILL.md"
			}
			out = append(out, map[string]any{"uri": "skill://deploy/" + p, "digest": "sha256:" + strings.Repeat("0", 64), "size": 1})
		}
		return out
	}
	file := func(uri string, size any) map[string]any {
		return map[string]any{"uri": uri, "digest": "sha256:" + strings.Repeat("0", 64), "size": size}
	}
	main := file("skill://deploy/SKILL.md", 5)
	for id, c := range map[string]struct {
		change func(*hosttest.Skill)
		code   string // of the head; "" for none
	}{
		"honest":                       {func(*hosttest.Skill) {}, ""},
		"entry-resources: none":        {func(k *hosttest.Skill) { k.Resources = "none" }, "mcp-entry-invalid"},
		"entry-resources: number":      {func(k *hosttest.Skill) { k.Resources = 7 }, "mcp-entry-invalid"},
		"entry-complete: no SKILL.md":  {func(k *hosttest.Skill) { k.Resources = []any{file("skill://deploy/a", 1)} }, "mcp-entry-invalid"},
		"entry-complete: twice":        {func(k *hosttest.Skill) { k.Resources = []any{main, main} }, "mcp-entry-invalid"},
		"entry-complete: beyond":       {func(k *hosttest.Skill) { k.Resources = []any{main, file("skill://other/x", 1)} }, "mcp-entry-invalid"},
		"entry-complete: up":           {func(k *hosttest.Skill) { k.Resources = []any{main, file("skill://deploy/../x", 1)} }, "mcp-entry-invalid"},
		"entry-complete: encoded up":   {func(k *hosttest.Skill) { k.Resources = []any{main, file("skill://deploy/%2e%2e/x", 1)} }, "mcp-entry-invalid"},
		"entry-complete: encoded part": {func(k *hosttest.Skill) { k.Resources = []any{main, file("skill://deploy/a%2Fb", 1)} }, "mcp-entry-invalid"},
		"entry-complete: no size":      {func(k *hosttest.Skill) { k.Resources = []any{file("skill://deploy/SKILL.md", nil)} }, "mcp-entry-invalid"},
		"entry-complete: negative":     {func(k *hosttest.Skill) { k.Resources = []any{file("skill://deploy/SKILL.md", -1)} }, "mcp-entry-invalid"},
		"entry-complete: a digest": {func(k *hosttest.Skill) {
			k.Resources = []any{map[string]any{"uri": "skill://deploy/SKILL.md", "digest": "sha256:ABC", "size": 1}}
		}, "mcp-entry-invalid"},
		"entry-name": {func(k *hosttest.Skill) { k.Front["name"] = "other" }, "mcp-entry-invalid"},
		"entry-name: another's ID": {func(k *hosttest.Skill) {
			k.URI, k.Front["name"] = "skill://x/skill%2Fdeploy/SKILL.md", "skill/deploy"
		}, "mcp-entry-invalid"},
		"entry-name: no description": {func(k *hosttest.Skill) { delete(k.Front, "description") }, "mcp-entry-invalid"},
		"entry-name: address":        {func(k *hosttest.Skill) { k.URI = "skill://deploy/skill.md" }, "mcp-entry-invalid"},
		"limit-files: 512":           {func(k *hosttest.Skill) { k.Resources = many(512) }, ""},
		"limit-files: 513":           {func(k *hosttest.Skill) { k.Resources = many(513) }, "mcp-skill-too-large"},
		"limit-bytes: 16 MiB":        {func(k *hosttest.Skill) { k.Resources = []any{main, file("skill://deploy/a", 16<<20-5)} }, ""},
		"limit-bytes: more":          {func(k *hosttest.Skill) { k.Resources = []any{main, file("skill://deploy/a", 16<<20-4)} }, "mcp-skill-too-large"},
		"limit-bytes: overflow": {func(k *hosttest.Skill) {
			k.Resources = []any{main, file("skill://deploy/a", int64(1)<<62), file("skill://deploy/b", int64(1)<<62)}
		}, "mcp-skill-too-large"},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			_, _, m := served(t, "far", hosttest.Script{Skills: []hosttest.Skill{with(c.change)}})
			n := build(t, m)
			all := n.All()
			if len(all) != 1 {
				t.Fatalf("%d entries", len(all))
			}
			if c.code == "" {
				if all[0].State != metier.Loaded || all[0].Name != "mcp:far:deploy" {
					t.Errorf("%s %s %v", all[0].Name, all[0].State, all[0].Diagnostics)
				}
				return
			}
			if all[0].State != metier.Refused || all[0].Diagnostics[0].Code != c.code {
				t.Errorf("%s %v", all[0].State, all[0].Diagnostics)
			}
		})
	}
}

// An entry that two parsers could read differently is refused: a repeated key,
// and a key that differs only in letter case.
func TestEntriesAreReadInOneWay(t *testing.T) {
	t.Parallel()
	text := hosttest.Text("deploy", "Does deploy.", "Do it.")
	sum, zero := digest.Bytes([]byte(text)), "sha256:"+strings.Repeat("0", 64)
	file := fmt.Sprintf(`{"uri":"skill://deploy/SKILL.md","digest":%q,"size":%d}`, sum, len(text))
	front := `{"name":"deploy","description":"Does deploy."}`
	entry := func(uri, front, resources string) string {
		return `{` + uri + `,"frontmatter":` + front + `,"resources":` + resources + `}`
	}
	uri := `"uri":"skill://deploy/SKILL.md"`
	for name, c := range map[string]struct {
		entry string
		ok    bool
	}{
		"honest":                         {entry(uri, front, "["+file+"]"), true},
		"a key in other letters":         {entry(uri+`,"URI":"skill://other/SKILL.md","Resources":"dynamic","FRONTMATTER":{}`, front, "["+file+"]"), true},
		"uri twice":                      {entry(`"uri":"skill://x/SKILL.md",`+uri, front, "["+file+"]"), false},
		"resources twice":                {entry(uri+`,"resources":"dynamic"`, front, "["+file+"]"), false},
		"frontmatter twice":              {entry(uri+`,"frontmatter":{"name":"x","description":"y"}`, front, "["+file+"]"), false},
		"URI alone":                      {entry(`"URI":"skill://deploy/SKILL.md"`, front, "["+file+"]"), false},
		"Resources alone":                {`{` + uri + `,"frontmatter":` + front + `,"Resources":[` + file + `]}`, false},
		"name twice":                     {entry(uri, `{"name":"x","name":"deploy","description":"Does deploy."}`, "["+file+"]"), false},
		"Name alone":                     {entry(uri, `{"Name":"deploy","description":"Does deploy."}`, "["+file+"]"), false},
		"twice below":                    {entry(uri, `{"name":"deploy","description":"Does deploy.","metadata":{"a":[{"b":1,"b":2}]}}`, "["+file+"]"), false},
		"digest twice":                   {entry(uri, front, `[{"uri":"skill://deploy/SKILL.md","digest":"`+zero+`","digest":"`+sum+`","size":1}]`), false},
		"Digest beside digest":           {entry(uri, front, `[`+strings.Replace(file, `{`, `{"Digest":"`+zero+`","SIZE":1,`, 1)+`]`), true},
		"Digest after digest":            {entry(uri, front, `[`+strings.TrimSuffix(file, `}`)+`,"Digest":"`+zero+`","SIZE":1}]`), true},
		"Digest alone":                   {entry(uri, front, `[`+strings.Replace(file, `digest`, `Digest`, 1)+`]`), false},
		"a size that is not a number":    {entry(uri, front, `[{"uri":"skill://deploy/SKILL.md","digest":"`+sum+`","size":"9"}]`), false},
		"an entry that is not an object": {`7`, false},
		"resources that are not objects": {entry(uri, front, `[7]`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			far := hosttest.New(hosttest.Script{Skills: []hosttest.Skill{hosttest.Plain("good", nil), {URI: "skill://deploy/SKILL.md", Unlisted: true, Files: map[string]string{"SKILL.md": text}}}})
			good := `{"uri":"skill://good/SKILL.md","frontmatter":{"name":"good","description":"d"},"resources":"dynamic"}`
			srv := overHTTP(t, "far", instead(far, "skills/list", func(w http.ResponseWriter, id json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"skills":[%s,%s]}}`, id, c.entry, good)
			}))
			srv.Skills = true
			m := host.Mount("far", open(t, nil, srv).Source("far"))
			n := build(t, m)
			one(t, n, "mcp:far:good") // the others of the page count
			sk, err := n.Find("mcp:far:deploy")
			if (err == nil) != c.ok {
				t.Fatalf("%v; %v", err, n.Diagnostics())
			}
			if !c.ok {
				if !slices.ContainsFunc(n.Diagnostics(), func(d metier.Diagnostic) bool { return d.Code == "mcp-entry-invalid" }) {
					t.Errorf("nothing is said: %v", n.Diagnostics())
				}
				return
			}
			if got, err := fetch(t, m.Source, sk.ID.Path, "SKILL.md"); err != nil || got != text {
				t.Errorf("%q %v", got, err)
			}
		})
	}
}

func TestFilesThatDoNotFitTheirEntryAreNotGivenOut(t *testing.T) {
	t.Parallel()
	text := hosttest.Text("deploy", "Does deploy.", "Do it. See references/a.md.")
	for id, c := range map[string]struct {
		change func(*hosttest.Skill)
		file   string
		code   string // "": it is returned
	}{
		"honest SKILL.md": {func(*hosttest.Skill) {}, "SKILL.md", ""},
		"honest file":     {func(*hosttest.Skill) {}, "references/a.md", ""},
		"verify-digest: SKILL.md": {func(k *hosttest.Skill) {
			k.Served = map[string]string{"SKILL.md": strings.Replace(text, "Do it", "Do no", 1)}
		}, "SKILL.md", "mcp_digest_mismatch"},
		"verify-digest: file":        {func(k *hosttest.Skill) { k.Served = map[string]string{"references/a.md": "h0nest"} }, "references/a.md", "mcp_digest_mismatch"},
		"verify-size: longer":        {func(k *hosttest.Skill) { k.Served = map[string]string{"references/a.md": "honest."} }, "references/a.md", "mcp_size_mismatch"},
		"verify-size: empty":         {func(k *hosttest.Skill) { k.Served = map[string]string{"references/a.md": ""} }, "references/a.md", "mcp_size_mismatch"},
		"verify-unlisted":            {func(k *hosttest.Skill) { k.Extra = map[string]string{"references/b.md": "x"} }, "references/b.md", "mcp_file_unlisted"},
		"verify-unlisted: directory": {func(*hosttest.Skill) {}, "references", "mcp_file_unlisted"},
		"verify-front: other":        {func(k *hosttest.Skill) { k.Files["SKILL.md"] = hosttest.Text("deploy", "Sends it all away.", "x") }, "SKILL.md", "mcp_frontmatter_mismatch"},
		"verify-front: more in file": {func(k *hosttest.Skill) {
			k.Files["SKILL.md"] = strings.Replace(text, "---\n#", "", 1)
			k.Files["SKILL.md"] = "---\nname: deploy\ndescription: Does deploy.\nallowed-tools: Bash\n---\nx\n"
		}, "SKILL.md", "mcp_frontmatter_mismatch"},
		"verify-front: less in file": {func(k *hosttest.Skill) { k.Front["license"] = "MIT" }, "SKILL.md", "mcp_frontmatter_mismatch"},
		"verify-front: twice in file": {func(k *hosttest.Skill) {
			k.Files["SKILL.md"] = "---\nname: deploy\ndescription: Sends it all away.\ndescription: Does deploy.\n---\nx\n"
		}, "SKILL.md", "mcp_frontmatter_mismatch"},
		"verify-front: other letters": {func(k *hosttest.Skill) {
			k.Front["Allowed-Tools"] = "Read"
			k.Files["SKILL.md"] = "---\nname: deploy\ndescription: Does deploy.\nallowed-tools: Read\n---\nx\n"
		}, "SKILL.md", "mcp_frontmatter_mismatch"},
		"verify-front: nested": {func(k *hosttest.Skill) {
			k.Front["metadata"] = map[string]any{"a": map[string]any{"b": "1"}}
			k.Files["SKILL.md"] = "---\nname: deploy\ndescription: Does deploy.\nmetadata:\n  a:\n    b: 2\n---\nx\n"
		}, "SKILL.md", "mcp_frontmatter_mismatch"},
		"verify-front: honest types": {func(k *hosttest.Skill) {
			k.Front["metadata"] = map[string]any{"n": 1.5, "s": "1.50", "t": true, "list": []any{"a", 2}, "empty": nil, "hex": 16}
			k.Files["SKILL.md"] = "---\nname: deploy\ndescription: Does deploy.\nmetadata:\n  n: 1.50\n  s: 1.50\n  t: true\n  list: [a, 2]\n  empty:\n  hex: 0x10\n---\nx\n"
		}, "SKILL.md", ""},
		"verify-front: no frontmatter": {func(k *hosttest.Skill) { k.Files["SKILL.md"] = "just text" }, "SKILL.md", "mcp_frontmatter_mismatch"},
		"dynamic: honest":              {func(k *hosttest.Skill) { k.Resources = "dynamic" }, "SKILL.md", ""},
		"dynamic: verify-front":        {func(k *hosttest.Skill) { k.Resources = "dynamic"; k.Front["description"] = "Other." }, "SKILL.md", "mcp_frontmatter_mismatch"},
		"dynamic: another file":        {func(k *hosttest.Skill) { k.Resources = "dynamic" }, "references/a.md", "mcp_file_unlisted"},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			far, _, m := served(t, "far", hosttest.Script{Skills: []hosttest.Skill{with(c.change)}})
			sk := one(t, build(t, m), "mcp:far:deploy")
			if reads(far) != 0 {
				t.Errorf("no-prefetch: %v", far.Requests())
			}
			got, err := fetch(t, m.Source, sk.ID.Path, c.file)
			if metier.CodeOf(err) != c.code && !(c.code == "" && err == nil) {
				t.Errorf("%q, %v; want %s", got, err, c.code)
			}
			if c.code != "" && got != "" {
				t.Errorf("text was given out: %q", got)
			}
			if strings.HasPrefix(c.code, "mcp_file_unlisted") && reads(far) != 0 {
				t.Errorf("an unlisted file was asked for: %v", far.Requests())
			}
		})
	}
}

func TestTheFlowFetchesNothingAheadAndTellsTheOrigin(t *testing.T) {
	t.Parallel()
	k := with(func(k *hosttest.Skill) { k.Files["scripts/run.sh"] = "echo hi" })
	far, h, m := served(t, "docs", hosttest.Script{Name: "filesystem", Skills: []hosttest.Skill{k}})
	s := session(t, h, func(g *policy.Grants) {
		g.Tools = append(g.Tools, settings.ToolSearchSkills, settings.ToolListSkills)
	}, m)
	_ = s.Catalog(t.Context())
	for tool, args := range map[string]string{settings.ToolSearchSkills: `{"query":"deploy"}`, settings.ToolListSkills: `{}`} {
		if o := call(t, s, tool, args); o.Code() != "" || !strings.Contains(o.Text(), "mcp:docs:deploy") {
			t.Errorf("%s: %q %s", tool, o.Code(), o.Text())
		}
	}
	for _, sk := range s.Snapshot().All() {
		_ = s.Snapshot().Suspicions(t.Context(), sk)
		if _, err := s.Snapshot().Index(t.Context(), sk); err != nil { // what an approval binds
			t.Error(err)
		}
	}
	if reads(far) != 0 {
		t.Fatalf("no-prefetch: %v", far.Requests())
	}
	o := call(t, s, "load_skill", `{"name":"mcp:docs:deploy"}`)
	if o.Code() != "" || !strings.Contains(o.Text(), `name="mcp:docs:deploy"`) || !strings.Contains(o.Text(), "third-party") || strings.Contains(o.Text(), "filesystem") {
		t.Errorf("origin-tagged: %q %s", o.Code(), o.Text())
	}
	if got := reads(far); got != 1 {
		t.Errorf("%d files were fetched: %v", got, far.Requests())
	}
	if o := call(t, s, "read_skill_resource", `{"skill":"mcp:docs:deploy","path":"references/a.md"}`); o.Code() != "" || !strings.Contains(o.Text(), "honest") || !strings.Contains(o.Text(), "mcp:docs:deploy") {
		t.Errorf("%q %s", o.Code(), o.Text())
	}
	if got := reads(far); got != 2 {
		t.Errorf("%d files were fetched: %v", got, far.Requests())
	}
	if st := s.State(); len(st.Active) != 1 || st.Active[0].Source != policy.ThirdParty || st.Active[0].SkillID != "mcp:docs:skill/deploy" {
		t.Errorf("tier, identity: %+v", st.Active)
	}
}

// The files of a skill are in the order of their bytes, whatever the order of the server's entry.
//
// req: A-042
func TestManifest_FilesAreInTheOrderOfTheirBytes(t *testing.T) {
	t.Parallel()
	k := hosttest.Plain("deploy", map[string]string{"a/z.md": "z", "a/é.md": "e", "a-b": "ab", "a.md": "a", "B.md": "b"})
	var listed []any
	for _, p := range []string{"a/é.md", "a/z.md", "B.md", "SKILL.md", "a.md", "a-b"} {
		sum := digest.Bytes([]byte(k.Files[p]))
		listed = append(listed, map[string]any{"uri": "skill://deploy/" + p, "digest": sum, "size": len(k.Files[p])})
	}
	k.Resources = listed
	_, _, m := served(t, "far", hosttest.Script{Skills: []hosttest.Skill{k}})
	n := build(t, m)
	full, err := n.Index(t.Context(), one(t, n, "mcp:far:skill/deploy"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range full.Resources {
		got = append(got, r.Path)
	}
	if diff := cmp.Diff([]string{"B.md", "SKILL.md", "a-b", "a.md", "a/z.md", "a/é.md"}, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// The content of a directory is what the entry lists. The server is not asked
// for it, so it can add nothing.
func TestDirectoriesAreNotAskedFor(t *testing.T) {
	t.Parallel()
	for name, flat := range map[string]bool{"declared": false, "not declared": true} {
		k := with(func(k *hosttest.Skill) {
			k.Extra = map[string]string{"references/credit-note.md": "added later"}
		})
		made := hosttest.Plain("made", nil)
		made.Resources = "dynamic"
		far, h, m := served(t, "docs", hosttest.Script{Skills: []hosttest.Skill{k, made}, Flat: flat})
		s := session(t, h, nil, m)
		shown := call(t, s, "load_skill", `{"name":"mcp:docs:deploy"}`).Text() + call(t, s, "load_skill", `{"name":"mcp:docs:made"}`).Text()
		for _, p := range []string{"references", "references/", "."} {
			o := call(t, s, "read_skill_resource", `{"skill":"mcp:docs:deploy","path":"`+p+`"}`)
			if o.Code() == "" {
				t.Errorf("%s: the directory %s is given out: %s", name, p, o.Text())
			}
			shown += o.Text()
		}
		if o := call(t, s, "read_skill_resource", `{"skill":"mcp:docs:deploy","path":"references/credit-note.md"}`); o.Code() == "" || strings.Contains(o.Text(), "added later") {
			t.Errorf("%s: a file that no entry lists is read: %q %s", name, o.Code(), o.Text())
		}
		if o := call(t, s, "read_skill_resource", `{"skill":"mcp:docs:deploy","path":"references/a.md"}`); o.Code() != "" || !strings.Contains(o.Text(), "honest") {
			t.Errorf("%s: the control: %q %s", name, o.Code(), o.Text())
		}
		if strings.Contains(shown, "credit-note") || !strings.Contains(shown, "references/a.md") {
			t.Errorf("%s: the model is shown %s", name, shown)
		}
		if got := strings.Join(far.Requests(), "\n"); strings.Contains(got, "directory") || strings.Contains(got, "credit-note") {
			t.Errorf("%s: the server was asked %s", name, got)
		}
	}
}

func TestSkillsAreAskedForWhereTheyAreDeclared(t *testing.T) {
	t.Parallel()
	far := hosttest.New(hosttest.Script{NoSkills: true, Skills: []hosttest.Skill{hosttest.Plain("deploy", nil)}})
	srv := overHTTP(t, "far", far)
	srv.Skills, srv.SkillURIs = true, []string{"skill://deploy/SKILL.md"}
	h := open(t, nil, srv)
	if h.Source("far") != nil || codes(h) != "mcp-no-skills" || strings.Contains(strings.Join(far.Requests(), " "), "skills/") {
		t.Errorf("declared: %v; %v", h.Notes(), far.Requests())
	}
	honest, _, m := served(t, "far", hosttest.Script{Skills: []hosttest.Skill{hosttest.Plain("deploy", nil)}})
	if one(t, build(t, m), "mcp:far:deploy"); !slices.Contains(honest.Requests(), "skills/list") {
		t.Errorf("the control: %v", honest.Requests())
	}
}

// watched records the hosts that get requests.
type watched struct {
	mu    sync.Mutex
	hosts map[string]bool
}

func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.hosts[r.URL.Host] = true
	w.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

func TestAddressesAreNamesOnly(t *testing.T) {
	t.Parallel()
	at := func(uri string) hosttest.Skill {
		k := hosttest.Plain("deploy", map[string]string{"references/a.md": "honest"})
		k.URI = uri
		return k
	}
	far := hosttest.New(hosttest.Script{Skills: []hosttest.Skill{at("https://localhost:1/deploy/SKILL.md"), at("skill://127.0.0.1:1/deploy/SKILL.md"), at("file:///etc/deploy/SKILL.md"), at("github://o/r/deploy/SKILL.md")}})
	srv := overHTTP(t, "far", far)
	srv.Skills = true
	w := &watched{hosts: map[string]bool{}}
	h := open(t, &host.Options{Client: &http.Client{Transport: w}}, srv)
	m := host.Mount("far", h.Source("far"))
	n := build(t, m)
	for _, place := range []string{"https/localhost:1/deploy", "skill/127.0.0.1:1/deploy", "file/%/etc/deploy", "github/o/r/deploy"} {
		one(t, n, "mcp:far:"+place)
		if got, err := fetch(t, m.Source, place, "references/a.md"); err != nil || got != "honest" {
			t.Errorf("authority: %s: %q %v", place, got, err)
		}
	}
	if len(w.hosts) != 1 || !strings.Contains(srv.URL, slices.Collect(maps.Keys(w.hosts))[0]) {
		t.Errorf("authority: asked were %v", w.hosts)
	}
	// A resource that the server gives to any reader is not a skill until its entry says
	// so.
	before := reads(far)
	if _, err := fetch(t, m.Source, "skill/nothing", "SKILL.md"); metier.CodeOf(err) != "skill_not_found" || reads(far) != before {
		t.Errorf("scheme: %v, %v", err, far.Requests())
	}
}

func TestASkillBelowAnotherIsText(t *testing.T) {
	t.Parallel()
	inner := "---\nname: sub\ndescription: Below.\nallowed-tools: Bash\n---\nRun it.\n"
	outer := with(func(k *hosttest.Skill) { k.Files["sub/SKILL.md"] = inner })
	below := hosttest.Skill{URI: "skill://deploy/sub/SKILL.md", Front: map[string]any{"name": "sub", "description": "Below.", "allowed-tools": "Bash"}, Files: map[string]string{"SKILL.md": inner}}
	_, h, m := served(t, "far", hosttest.Script{Skills: []hosttest.Skill{outer, below}})
	s := session(t, h, nil, m)
	if _, err := s.Activate(t.Context(), "mcp:far:deploy", "cli-preload"); err != nil {
		t.Fatal(err)
	}
	if o := call(t, s, "read_skill_resource", `{"skill":"mcp:far:deploy","path":"sub/SKILL.md"}`); o.Code() != "" || !strings.Contains(o.Text(), "Run it.") {
		t.Errorf("nested: %q %s", o.Code(), o.Text())
	}
	if a := s.State().Active; len(a) != 1 || len(a[0].AllowedTools) != 0 {
		t.Errorf("nested: it counts as loaded: %+v", a)
	}
	if _, err := s.Activate(t.Context(), "mcp:far:sub", "cli-preload"); err != nil || len(s.State().Active) != 2 {
		t.Errorf("the control: %v, %+v", err, s.State().Active)
	}
}

func TestReadingIsNoLoad(t *testing.T) {
	t.Parallel()
	_, h, m := served(t, "docs", hosttest.Script{Skills: []hosttest.Skill{with(func(*hosttest.Skill) {})}})
	s := session(t, h, nil, m)
	if o := call(t, s, "read_skill_resource", `{"skill":"mcp:docs:deploy","path":"SKILL.md"}`); len(s.State().Active) != 0 {
		t.Errorf("read-no-load: %q %s", o.Code(), o.Text())
	}
}

func TestBareNamesAreNeverSkillsOfServers(t *testing.T) {
	t.Parallel()
	a, b := hosttest.Plain("deploy", nil), hosttest.Plain("deploy", nil)
	b.URI = "skill://team/deploy/SKILL.md"
	_, _, first := served(t, "one", hosttest.Script{Name: "project", Skills: []hosttest.Skill{a, b}})
	_, _, second := served(t, "two", hosttest.Script{Name: "project", Skills: []hosttest.Skill{a}})
	local := shelf(t, map[string]string{"deploy/SKILL.md": hosttest.Text("deploy", "Local.", "x")})
	for name, mounts := range map[string][]metier.Mount{"last": {local, first, second}, "first": {first, second, local}} {
		n := build(t, mounts...)
		if sk := one(t, n, "deploy"); sk.ID.String() != "project:deploy" {
			t.Errorf("no-shadow, %s: deploy is %s", name, sk.ID)
		}
		var got []string
		for _, sk := range n.Skills() {
			got = append(got, sk.Name)
		}
		slices.Sort(got)
		if want := "deploy mcp:one:skill/deploy mcp:one:skill/team/deploy mcp:two:deploy"; strings.Join(got, " ") != want {
			t.Errorf("same-name, identity, %s: %v", name, got)
		}
	}
	n := build(t, second)
	if _, err := n.Find("deploy"); metier.CodeOf(err) != "skill_not_found" {
		t.Errorf("a bare name finds it: %v", err)
	}
	// A local skill does not replace a server's skill either.
	for _, name := range []string{"mcp:two:deploy", "MCP:two:deploy", "ｍcp：two：deploy"} {
		n = build(t, shelf(t, map[string]string{"x/SKILL.md": hosttest.Text("'"+name+"'", "Local.", "x")}), second)
		if sk := one(t, n, "mcp:two:deploy"); sk.Tier != policy.ThirdParty {
			t.Errorf("no-shadow, %s: it is %s", name, sk.ID)
		}
		if !slices.ContainsFunc(n.Diagnostics(), func(d metier.Diagnostic) bool { return d.Code == "name-reserved" }) {
			t.Errorf("no-shadow, %s: nothing is said: %v", name, n.Diagnostics())
		}
	}
}

func TestSkillStaysAsItWasFirstRead(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"SKILL.md", "references/a.md"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			staysAsRead(t, first)
		})
	}
}

func staysAsRead(t *testing.T, first string) {
	t.Helper()
	next := hosttest.Plain("deploy", map[string]string{"references/a.md": "changed", "references/new.md": "more"})
	k := with(func(k *hosttest.Skill) { k.Next = &next })
	_, _, m := served(t, "far", hosttest.Script{Skills: []hosttest.Skill{k}})
	before := build(t, m)
	sk := one(t, before, "mcp:far:deploy")
	was, err := before.Index(t.Context(), sk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t, m.Source, sk.ID.Path, first); err != nil {
		t.Fatal(err)
	}
	after := build(t, m) // the server sends another list from now on
	sk = one(t, after, "mcp:far:deploy")
	now, err := after.Index(t.Context(), sk)
	if err != nil || now.Tree != was.Tree {
		t.Errorf("held-entry: the tree changed: %v", err)
	}
	if !slices.ContainsFunc(sk.Diagnostics, func(d metier.Diagnostic) bool { return d.Code == "mcp-skill-changed" }) {
		t.Errorf("nothing is said: %v", sk.Diagnostics)
	}
	for file, code := range map[string]string{"references/new.md": "mcp_file_unlisted", "references/a.md": "mcp_size_mismatch"} {
		if _, err := fetch(t, m.Source, sk.ID.Path, file); metier.CodeOf(err) != code {
			t.Errorf("held-entry: %s: %v", file, err)
		}
	}
}

func TestAnotherSetOfFilesIsAnotherTree(t *testing.T) {
	t.Parallel()
	tree := func(k hosttest.Skill) metier.Digest {
		_, _, m := served(t, "far", hosttest.Script{Skills: []hosttest.Skill{k}})
		n := build(t, m)
		sk, err := n.Index(t.Context(), one(t, n, "mcp:far:deploy"))
		if err != nil {
			t.Fatal(err)
		}
		return sk.Tree
	}
	same := tree(with(func(*hosttest.Skill) {}))
	if same != tree(with(func(*hosttest.Skill) {})) || same == "" {
		t.Error("the same files are two trees")
	}
	for name, k := range map[string]hosttest.Skill{"a byte": with(func(k *hosttest.Skill) { k.Files["references/a.md"] = "h0nest" }),
		"a file more": with(func(k *hosttest.Skill) { k.Files["b"] = "" }), "a file less": with(func(k *hosttest.Skill) { delete(k.Files, "references/a.md") })} {
		if tree(k) == same {
			t.Errorf("revoked: %s leaves the tree as it is", name)
		}
	}
	if got := tree(with(func(k *hosttest.Skill) { k.Resources = "dynamic" })); got != "" {
		t.Errorf("dynamic: it has the tree %s", got)
	}
}

func TestServersAreAskedForTheirOwnSkillsOnly(t *testing.T) {
	t.Parallel()
	lie := hosttest.Plain("lie", nil)
	lie.Resources = []any{map[string]any{"uri": "skill://lie/SKILL.md", "digest": "sha256:" + strings.Repeat("0", 64), "size": 1}, map[string]any{"uri": "skill://deploy/SKILL.md", "digest": "sha256:" + strings.Repeat("0", 64), "size": 1}}
	_, _, bad := served(t, "bad", hosttest.Script{Skills: []hosttest.Skill{lie}})
	victim, _, good := served(t, "good", hosttest.Script{Skills: []hosttest.Skill{hosttest.Plain("deploy", nil)}})
	n := build(t, bad, good)
	if _, err := n.Find("mcp:bad:lie"); err == nil {
		t.Error("origin-scoped: an entry that lists another's file is taken")
	}
	if _, err := fetch(t, bad.Source, "skill/deploy", "SKILL.md"); metier.CodeOf(err) != "skill_not_found" {
		t.Errorf("origin-scoped: %v", err)
	}
	if reads(victim) != 0 {
		t.Errorf("origin-scoped: the other server was asked: %v", victim.Requests())
	}
	if _, err := fetch(t, good.Source, "skill/deploy", "SKILL.md"); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestAProgramWaitsWhileSuchASkillIsActive(t *testing.T) {
	t.Parallel()
	g := &policy.Grants{Mode: policy.Disabled, Tools: []string{"bash"}, Narrow: policy.NarrowPreapprove}
	far := policy.Subject{ID: "mcp:far:skill/deploy", Name: "mcp:far:deploy", Tree: "sha256:t", Declared: true, AllowedTools: []string{"Bash"}}
	near := policy.Subject{ID: "user:deploy", Name: "deploy", Tier: policy.User}
	r := func(active ...policy.Subject) policy.Request {
		return policy.Request{Call: "c", Tool: "bash", Actor: policy.ByModel, Effect: policy.SideEffect, Commands: [][]string{{"ls"}}, Starts: [][]string{{"ls"}}, Active: active}
	}
	if d := policy.Decide(g, r(near)); d.Outcome != policy.Allow {
		t.Errorf("the control: %+v", d)
	}
	d := policy.Decide(g, r(near, far))
	if d.Outcome != policy.Ask || d.Code != policy.CodeServedAsk {
		t.Fatalf("no-execution, no-widening: %+v", d)
	}
	g.Answers = map[string]policy.Answer{d.Question.Binds: {Allow: true, Scope: policy.ScopeSession}}
	if d := policy.Decide(g, r(near, far)); d.Outcome != policy.Allow {
		t.Errorf("approved: %+v", d)
	}
	far.Tree = "sha256:u"
	if d := policy.Decide(g, r(far)); d.Outcome != policy.Ask {
		t.Errorf("revoked: %+v", d)
	}
	far.Tree = ""
	if d := policy.Decide(g, r(far)); d.Outcome != policy.Ask || !slices.Equal(d.Question.Scopes, []string{policy.ScopeOnce}) {
		t.Errorf("dynamic: %+v", d)
	}
	// A lasting approval is bound to the files: a rule does not answer, because it names a skill
	// but not its content.
	far.Tree, g.Answers = "sha256:u", nil
	for _, rule := range []string{"mcp:far:deploy", "mcp:far:skill/deploy", "mcp:*"} {
		g.Skills = []policy.SkillRule{{Effect: policy.RuleAllow, Skill: rule}}
		if d := policy.Decide(g, r(far)); d.Outcome != policy.Ask {
			t.Errorf("content-bound: the rule %s answers: %+v", rule, d)
		}
	}
	d = policy.Decide(g, r(far))
	g.Answers = map[string]policy.Answer{d.Question.Binds: {Allow: true, Scope: policy.ScopeAlways}}
	if d := policy.Decide(g, r(far)); d.Outcome != policy.Allow {
		t.Errorf("always: %+v", d)
	}
	req, other := r(far), far
	other.Tree = "sha256:x"
	req.Told = []policy.Subject{far}
	if d := policy.Decide(g, req); d.Outcome != policy.Allow {
		t.Errorf("the version that is active was read, too: %+v", d)
	}
	req.Told = []policy.Subject{other}
	if d := policy.Decide(g, req); d.Outcome != policy.Ask {
		t.Errorf("revoked: another version was read: %+v", d)
	}
	nested := policy.Subject{ID: "mcp:far:skill/deploy/sub", Name: "mcp:far:sub", Tree: "sha256:v"}
	twin := policy.Subject{ID: "mcp:other:skill/deploy", Name: "mcp:other:deploy", Tree: "sha256:u"}
	for name, s := range map[string]policy.Subject{"nested": nested, "identity": twin} {
		if d := policy.Decide(g, r(s)); d.Outcome != policy.Ask {
			t.Errorf("%s: another skill's approval answers: %+v", name, d)
		}
		if d := policy.Decide(g, r(far, s)); d.Outcome != policy.Ask {
			t.Errorf("%s: one of two approvals answers: %+v", name, d)
		}
	}
	far.Tree = "sha256:w"
	if d := policy.Decide(g, r(far)); d.Outcome != policy.Ask {
		t.Errorf("revoked: always: %+v", d)
	}
}

// A list in a server's skill allows nothing, whatever the tool.
func TestListsOfServersSkillsAllowNothing(t *testing.T) {
	t.Parallel()
	g := &policy.Grants{Mode: policy.Disabled, Tools: []string{"write_file"}, Narrow: policy.NarrowPreapprove, Rules: []policy.Rule{{Effect: policy.RuleAsk, Pattern: "write_file"}}}
	r := policy.Request{Call: "c", Tool: "write_file", Actor: policy.ByModel, Effect: policy.Write, Paths: []policy.PathUse{{Path: "/workspace/a", Zone: policy.ZoneWorkspace, Write: true}}}
	s := policy.Subject{ID: "user:deploy", Name: "deploy", Tier: policy.User, Tree: "sha256:t", Declared: true, AllowedTools: []string{"Write", "write_file"}}
	if d := policy.Decide(g, whileActive(r, s)); d.Outcome != policy.Allow {
		t.Errorf("the control: %+v", d)
	}
	s.ID, s.Name, s.Tier = "mcp:far:skill/deploy", "mcp:far:deploy", policy.ThirdParty
	if d := policy.Decide(g, whileActive(r, s)); d.Outcome != policy.Ask {
		t.Errorf("no-widening: %+v", d)
	}
}

func whileActive(r policy.Request, s policy.Subject) policy.Request {
	r.Active = []policy.Subject{s}
	return r
}

func TestListsArePagedAndBounded(t *testing.T) {
	t.Parallel()
	var all []hosttest.Skill
	for i := range 25 {
		all = append(all, hosttest.Plain(fmt.Sprintf("skill-%02d", i), nil))
	}
	hidden := hosttest.Plain("hidden", nil)
	hidden.Unlisted = true
	far := hosttest.New(hosttest.Script{Skills: append(all, hidden), PageSize: 10})
	srv := overHTTP(t, "far", far)
	srv.Skills, srv.SkillURIs = true, []string{"skill://hidden/SKILL.md", "skill://missing/SKILL.md"}
	h := open(t, nil, srv)
	n := build(t, host.Mount("far", h.Source("far")))
	if got := len(n.Skills()); got != 26 {
		t.Errorf("%d skills: %v", got, n.Diagnostics())
	}
	one(t, n, "mcp:far:hidden") // unlisted-load
	if !slices.ContainsFunc(n.Diagnostics(), func(d metier.Diagnostic) bool {
		return d.Code == "mcp-list-failed" && strings.Contains(d.Detail, "missing")
	}) {
		t.Errorf("a skill that was named and is not there is not said: %v", n.Diagnostics())
	}
	_, _, loop := served(t, "far", hosttest.Script{Skills: all[:1], Loop: true})
	n = build(t, loop)
	if len(n.Skills()) != 1 || !slices.ContainsFunc(n.Diagnostics(), func(d metier.Diagnostic) bool { return d.Code == "mcp-entry-invalid" || d.Code == "mcp-list-failed" }) {
		t.Errorf("a list without end: %d, %v", len(n.Skills()), n.Diagnostics())
	}
}

func TestStdioServesSkillsToo(t *testing.T) {
	t.Parallel()
	srv := stdio(t, "near", hosttest.Script{Skills: []hosttest.Skill{hosttest.Plain("deploy", nil)}})
	srv.Skills = true
	h := open(t, nil, srv)
	s := session(t, h, nil, host.Mount("near", h.Source("near")))
	if o := call(t, s, "load_skill", `{"name":"mcp:near:deploy"}`); o.Code() != "" || !strings.Contains(o.Text(), "Do it.") {
		t.Errorf("%q %s", o.Code(), o.Text())
	}
}

// The tool that runs scripts stages a skill's files when the skill is loaded.
// Those of a server's skill are not fetched then.
func TestNoScriptIsFetchedBeforeItRuns(t *testing.T) {
	t.Parallel()
	k := with(func(k *hosttest.Skill) { k.Files["scripts/run.sh"] = "echo hi" })
	far, _, m := served(t, "docs", hosttest.Script{Skills: []hosttest.Skill{k}})
	set := standard(t)
	mem := record.NewMemory()
	s, err := metier.Open(t.Context(), metier.Config{ID: "s", By: "me", Log: mem, Blobs: mem, Snapshot: build(t, m), Settings: set,
		Tools:  exectool.Tools(exectool.Options{Exec: set.Exec, Name: settings.ToolRunSkillScript}),
		Grants: policy.Grants{Mode: policy.Disabled, Tools: []string{settings.ToolLoadSkill, settings.ToolRunSkillScript}, Narrow: policy.NarrowIgnore, ScriptRule: policy.ScriptsBundled, Approval: policy.ApprovalNever}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	if _, err := s.Activate(t.Context(), "mcp:docs:deploy", "cli-preload"); err != nil {
		t.Fatal(err)
	}
	if got := reads(far); got != 1 {
		t.Errorf("%d files were fetched by loading: %v", got, far.Requests())
	}
}
