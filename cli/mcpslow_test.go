package cli_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// slow is a client that reads 1 KB of a pipe at a time, and only after it has
// sent all its requests.
type slow struct {
	t    *testing.T
	in   io.Writer
	out  io.Reader
	rest []byte
	size int // of the longest line
}

func (s *slow) send(id int, method, params string) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		s.t.Fatal(err)
	}
}

// line reads up to the end of a line, at most 1,024 bytes at a time.
func (s *slow) line() []byte {
	s.t.Helper()
	piece := make([]byte, 1024)
	for {
		if line, rest, whole := bytes.Cut(s.rest, []byte("\n")); whole {
			s.rest, s.size = rest, max(s.size, len(line))
			return line
		}
		n, err := s.out.Read(piece)
		if err != nil {
			s.t.Fatalf("%v after %.200s", err, s.rest)
		}
		s.rest = append(s.rest, piece[:n]...)
	}
}

// results reads the answers to ids, in whatever order they come.
func (s *slow) results(ids ...int) map[int]json.RawMessage {
	s.t.Helper()
	out := map[int]json.RawMessage{}
	for len(out) < len(ids) {
		var answer struct {
			ID     int
			Result json.RawMessage
		}
		line := s.line()
		if err := json.Unmarshal(line, &answer); err != nil || answer.Result == nil {
			s.t.Fatalf("%v: %.200s", err, line)
		}
		out[answer.ID] = answer.Result
	}
	for _, id := range ids {
		if out[id] == nil {
			s.t.Fatalf("no answer to %d", id)
		}
	}
	return out
}

// skills pages through skills/list and returns digest and size of each file by
// its path. meta is the _meta of each request, "" in a session.
func (s *slow) skills(meta string) map[string]string {
	s.t.Helper()
	got := map[string]string{}
	for id, cursor := 2, ""; ; id += 3 {
		params := "{" + meta + "}"
		at := params
		if cursor != "" {
			at = fmt.Sprintf(`{"cursor":%q%s}`, cursor, strings.TrimSuffix(","+meta, ","))
		}
		s.send(id, "skills/list", at)
		s.send(id+1, "tools/list", params) // more waits behind it
		s.send(id+2, "resources/list", params)
		var page struct {
			Skills []struct {
				Resources []struct {
					URI, Digest string
					Size        int
				}
			}
			NextCursor string
		}
		if err := json.Unmarshal(s.results(id, id+1, id+2)[id], &page); err != nil {
			s.t.Fatal(err)
		}
		for _, skill := range page.Skills {
			for _, f := range skill.Resources {
				_, path, _ := strings.Cut(strings.TrimPrefix(f.URI, "skill://"), "/") // after the label of the source
				got[path] = fmt.Sprintf("%s %d", f.Digest, f.Size)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return got
		}
	}
}

// A slow client with a large backlog still gets complete answers: each of several hundred skills,
// with the size and digest of each file.
func TestASlowReaderGetsWholeLists(t *testing.T) {
	t.Parallel()
	const many = 450
	p := newPlace(t)
	files, want := map[string]string{}, map[string]string{}
	for i := range many {
		name := fmt.Sprintf("s%03d", i)
		for file, text := range map[string]string{
			"SKILL.md":         "---\nname: " + name + "\ndescription: " + strings.Repeat("Words of "+name+". ", 60) + "\n---\nText.\n",
			"references/it.md": strings.Repeat(name+"\n", i%7),
		} {
			path := name + "/" + file
			files["shelf/"+path] = text
			want[path] = fmt.Sprintf("sha256:%x %d", sha256.Sum256([]byte(text)), len(text))
		}
	}
	p.write(files)
	for revision, meta := range map[string]string{
		"2025-11-25": "",
		"2026-07-28": `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`,
	} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			cmd := p.command("metier", "mcp", "--watch", "0")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			s := &slow{t: t, in: in, out: out}
			if meta == "" {
				s.send(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
				s.results(1)
				if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			got := s.skills(meta)
			for path, is := range want {
				if got[path] != is {
					t.Errorf("%s is %q, want %q", path, got[path], is)
				}
			}
			if s.size < 3*64<<10 {
				t.Errorf("the longest answer has %d bytes, and a pipe takes 64 KiB at once", s.size)
			}
			in.Close()
			if left, err := io.ReadAll(out); err != nil || len(left)+len(s.rest) > 0 {
				t.Errorf("after the answers came %q %q, %v", s.rest, left, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
