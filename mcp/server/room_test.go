package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/mcp/server"
)

// unread requests a resource, and reads only the first line of the answer.
func unread(t *testing.T, address, token, uri string) net.Conn {
	t.Helper()
	c, r := asks(t, address, token, "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri))
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Fatal(line, err)
	}
	return c
}

// asks sends a request of the newest revision. Its header Metier-Request has no
// effect: clients cannot set the server's own request numbers.
func asks(t *testing.T, address, token, method, name, params string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params, newest)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: %s\r\nMcp-Method: %s\r\nMcp-Name: %s\r\nMetier-Request: 0\r\nContent-Length: %d\r\n\r\n%s", token, newest, method, name, len(body), body)
	return c, bufio.NewReader(c)
}

// Files that one principal requests but does not read leave space for other
// principals, and for the same one once it reads them.
func TestHandler_BoundsContentUntilItIsWritten(t *testing.T) {
	t.Parallel()
	files := map[string]string{"pdf/SKILL.md": skill("pdf", "Read PDFs.", "Read."), "pdf/large.txt": strings.Repeat("words ", 2<<20), "pdf/small.txt": "words"}
	w := start(t, files)
	h := w.http(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890", "bob": "token-of-bob-1234567890"}})
	ada, bob := w.over(h, "token-of-ada-1234567890", newest, nil), w.over(h, "token-of-bob-1234567890", newest, nil)
	list, err := ada.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 {
		t.Fatal(list, err)
	}
	folder := strings.TrimSuffix(list.Resources[0].URI, "SKILL.md")
	read := func(c *client, file string) error {
		_, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: folder + file})
		return err
	}
	held := []net.Conn{}
	for range 2 {
		held = append(held, unread(t, h.Listener.Addr().String(), "token-of-ada-1234567890", folder+"large.txt"))
	}
	if err := read(ada, "large.txt"); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("a third one: %v", err)
	}
	if err := read(ada, "small.txt"); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if err := read(bob, "large.txt"); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	for _, c := range held {
		c.Close()
	}
	for read(ada, "small.txt") == nil && read(ada, "large.txt") != nil { // until there is space again
	}
}

// Tools and lists take room, too, for what their client has not read yet.
func TestHandler_BoundsAnswersUntilTheyAreWritten(t *testing.T) {
	t.Parallel()
	const room, left = 32 << 20, 1000
	half := room/2 - left/2
	w := start(t, map[string]string{"pdf/SKILL.md": skill("pdf", "Read PDFs.", "Read."), "pdf/half.txt": strings.Repeat("x", half)})
	h := w.http(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890", "bob": "token-of-bob-1234567890"}})
	ada, bob := w.over(h, "token-of-ada-1234567890", newest, nil), w.over(h, "token-of-bob-1234567890", newest, nil)
	list, err := ada.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 {
		t.Fatal(list, err)
	}
	uri := strings.TrimSuffix(list.Resources[0].URI, "SKILL.md") + "half.txt"
	for range 2 {
		unread(t, h.Listener.Addr().String(), "token-of-ada-1234567890", uri)
	}
	for what, answer := range map[string]func(c *client) error{
		"a tool": func(c *client) error {
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": "pdf"}})
			return err
		},
		"a list": func(c *client) error {
			_, err := c.ListTools(t.Context(), nil)
			return err
		},
	} {
		if err := answer(ada); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
			t.Errorf("%s without room: %v", what, err)
		}
		if err := answer(bob); err != nil {
			t.Errorf("%s of somebody else: %v", what, err)
		}
	}
}

// Instructions are read whole for each part of them, so many calls at once would fill the memory.
func TestHandler_BoundsToolsByWhatTheyRead(t *testing.T) {
	t.Parallel()
	const room, left = 32 << 20, 1 << 20
	half := room/2 - left/2
	w := start(t, map[string]string{"pdf/SKILL.md": skill("pdf", "Read PDFs.", strings.Repeat("words\n", 2*left/6)), "small/half.txt": strings.Repeat("x", half), "small/SKILL.md": skill("small", "Reads.", "Read.")})
	h := w.http(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890"}})
	ada := w.over(h, "token-of-ada-1234567890", newest, nil)
	list, err := ada.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 2 {
		t.Fatal(list, err)
	}
	uri := strings.TrimSuffix(list.Resources[1].URI, "SKILL.md") + "half.txt"
	for range 2 {
		unread(t, h.Listener.Addr().String(), "token-of-ada-1234567890", uri)
	}
	load := func(name string) error {
		_, err := ada.CallTool(t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": name}})
		return err
	}
	if err := load("pdf"); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("long instructions: %v", err)
	}
	if err := load("small"); err != nil {
		t.Errorf("short ones: %v", err)
	}
}

// A client that does not read its answer is disconnected, and its memory is
// freed.
func TestHandler_EndsAnswersThatAreNotTaken(t *testing.T) {
	t.Parallel()
	files := map[string]string{"pdf/SKILL.md": skill("pdf", "Read PDFs.", "Read."), "pdf/large.txt": strings.Repeat("words ", 2<<20)}
	w := start(t, files, func(w *fixture) { w.body = 500 * time.Millisecond })
	h := w.http(server.Access{})
	c := w.over(h, "", newest, nil)
	list, err := c.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 {
		t.Fatal(list, err)
	}
	uri := strings.TrimSuffix(list.Resources[0].URI, "SKILL.md") + "large.txt"
	for range 2 {
		unread(t, h.Listener.Addr().String(), "", uri)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = errors.New("not read yet")
	for err != nil && ctx.Err() == nil {
		_, err = c.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	}
	if err != nil {
		t.Errorf("there is no room again: %v", err)
	}
}

func TestHandler_BoundsListeners(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	h := w.http(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890", "bob": "token-of-bob-1234567890"}})
	listens := func(token string) (answer string) {
		c, r := asks(t, h.Listener.Addr().String(), token, "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for !strings.Contains(answer, `"method"`) && !strings.Contains(answer, `"error"`) {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(answer, err)
			}
			answer += line
		}
		return answer
	}
	for i := range 400 {
		if got := listens("token-of-ada-1234567890"); !strings.Contains(got, "acknowledged") {
			t.Fatalf("%d: %s", i, got)
		}
	}
	if got := listens("token-of-ada-1234567890"); !strings.Contains(got, "too_many_calls") {
		t.Errorf("one more: %s", got)
	}
	if got := listens("token-of-bob-1234567890"); !strings.Contains(got, "acknowledged") {
		t.Errorf("somebody else: %s", got)
	}
}

// Each folder above a file is looked up by its address. With a million parts
// this took a minute.
func TestAddress_OfAMillionPartsIsNone(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 20 { // small maps do not hash their keys
		files[fmt.Sprintf("s%d/SKILL.md", i)] = skill(fmt.Sprintf("s%d", i), "Read.", "Read.")
	}
	c := start(t, files).stdio(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: "skill://" + strings.Repeat("a/", 1_500_000) + "a"})
	if err == nil || !strings.Contains(err.Error(), "there is no resource") {
		t.Error(err)
	}
}

// A prompt takes room for its text with the arguments, not only for that of SKILL.md.
func TestHandler_BoundsPromptsWithTheirArguments(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"greet/SKILL.md": "---\nname: greet\ndescription: Greet.\nargument-hint: who\n---\n" + strings.Repeat("$ARGUMENTS\n", 400)})
	h := w.http(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890", "bob": "token-of-bob-1234567890"}})
	ada, bob := w.over(h, "token-of-ada-1234567890", newest, nil), w.over(h, "token-of-bob-1234567890", newest, nil)
	get := func(c *client, n int) error {
		_, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"arguments": strings.Repeat("x", n)}})
		return err
	}
	if err := get(ada, 17<<10); err == nil || !strings.Contains(err.Error(), "invalid_arguments") {
		t.Errorf("long arguments: %v", err)
	}
	if err := get(ada, 16000); err != nil {
		t.Errorf("arguments within the limit: %v", err)
	}
	for range 4 {
		c, r := asks(t, h.Listener.Addr().String(), "token-of-ada-1234567890", "prompts/get", "greet", fmt.Sprintf(`"name":"greet","arguments":{"arguments":%q}`, strings.Repeat("x", 16000)))
		defer c.Close()
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
			t.Fatal(line, err)
		}
	}
	if err := get(ada, 16000); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("one more that is not read: %v", err)
	}
	if err := get(bob, 16000); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

// Characters that JSON escapes count as they are sent.
func TestHandler_BoundsFilesAsTheyAreSent(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a/SKILL.md": skill("a", "Read.", "Read."), "a/plain.txt": strings.Repeat("x", 4<<20), "a/tags.txt": strings.Repeat("<", 4<<20)})
	h := w.http(server.Access{})
	c := w.over(h, "", newest, nil)
	list, err := c.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 {
		t.Fatal(list, err)
	}
	folder := strings.TrimSuffix(list.Resources[0].URI, "SKILL.md")
	unread(t, h.Listener.Addr().String(), "", folder+"tags.txt")
	read := func(file string) error {
		_, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: folder + file})
		return err
	}
	if err := read("tags.txt"); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("another one: %v", err)
	}
	if err := read("plain.txt"); err != nil {
		t.Errorf("a plain one: %v", err)
	}
}

// Principals that do not read their answers leave room for another one.
func TestHandler_LeavesRoomForOtherPrincipals(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"a/SKILL.md": skill("a", "Read.", "Read."), "a/f.txt": strings.Repeat("x", 16<<20-1000)})
	tokens := map[string]string{"ada": "token-of-ada-1234567890", "bob": "token-of-bob-1234567890", "carl": "token-of-carl-1234567890"}
	h := w.http(server.Access{Tokens: tokens})
	carl := w.over(h, tokens["carl"], newest, nil)
	list, err := carl.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 {
		t.Fatal(list, err)
	}
	uri := strings.TrimSuffix(list.Resources[0].URI, "SKILL.md") + "f.txt"
	for _, who := range []string{"ada", "ada", "bob", "bob"} {
		unread(t, h.Listener.Addr().String(), tokens[who], uri)
	}
	if _, err := carl.ListTools(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
