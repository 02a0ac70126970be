package host

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/intake"
)

func ofServer(most int) *connection {
	return &connection{host: &Host{opts: Options{Message: most}}, secrets: Server{}.redactor()}
}

// The library gets a stream without notifications, comments, and events that it
// would skip.
func TestEvents_LeaveNotificationsAndCommentsOut(t *testing.T) {
	t.Parallel()
	const news = `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
	for name, c := range map[string]struct {
		stream, want string
		dirty        bool
	}{
		"an answer":                {"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", false},
		"on several lines":         {"data:{\r\ndata: \"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\r\n", "data: {\ndata: \"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", false},
		"without a last line":      {`data: {"jsonrpc":"2.0","id":1,"result":{}}`, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", false},
		"a request":                {`data: {"jsonrpc":"2.0","id":"p","method":"ping"}` + "\n\n", `data: {"jsonrpc":"2.0","id":"p","method":"ping"}` + "\n\n", false},
		"a notification":           {"data: " + news + "\n\n", "", false},
		"keys in other letters":    {`data: {"jsonrpc":"2.0","ID":1,"method":"notifications/message"}` + "\n\n", "", false},
		"one with a place":         {"id: 7\ndata: " + news + "\n\n", "id: 7\n\n", false},
		"the tools changed":        {`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n", "", true},
		"another event":            {"event: x\ndata: {}\n\n", "", false},
		"comments":                 {": here\n\n: still here\ndata: {\n: {{{\ndata: }\n\n", "data: {\ndata: }\n\n", false},
		"a place to go on":         {"id: 3\nretry: 10\ndata: \n\n", "id: 3\nretry: 10\ndata: \n\n", false},
		"what is none":             {"data: x\n\n", "data: x\n\n", false},
		"a line that is no field":  {"data\n\n", "data\n\n", false},
		"two answers and one news": {"data: 1\n\ndata: " + news + "\n\ndata: 2\n\n", "data: 1\n\ndata: 2\n\n", false},
	} {
		conn := ofServer(1 << 20)
		got, err := io.ReadAll(newEvents(conn, iotest.OneByteReader(strings.NewReader(c.stream))))
		if err != nil || string(got) != c.want || conn.dirty != c.dirty {
			t.Errorf("%s: %q, %v, changed: %v", name, got, err, conn.dirty)
		}
	}
}

func TestEvents_BoundDepthAndSize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		want   error
	}{
		"deep":                 {"data: " + strings.Repeat("[", 101) + "\n", intake.ErrTooDeep},
		"deep behind comments": {strings.Repeat("data: "+strings.Repeat("[", 60)+"\n: "+strings.Repeat("]", 60)+"\n", 2), intake.ErrTooDeep},
		"deep comments":        {": " + strings.Repeat("[", 200) + "\n\n", nil},
		"large":                {"data: " + strings.Repeat("x", 2000), intake.ErrTooMuch},
		"large in lines":       {strings.Repeat("data: x\n", 200), intake.ErrTooMuch},
		"large comments":       {strings.Repeat(": x\n", 400), intake.ErrTooMuch},
		"many events":          {strings.Repeat("data: "+strings.Repeat("[", 60)+strings.Repeat("]", 60)+"\n\n", 100), nil},
	} {
		if _, err := io.ReadAll(newEvents(ofServer(1000), strings.NewReader(c.stream))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The library queues notifications without a limit, so those of a program are
// removed first.
func TestInTurn_LeavesNotificationsOut(t *testing.T) {
	t.Parallel()
	in := strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`+"\n", 1000) +
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"
	conn := ofServer(1 << 20)
	c, err := inTurn{&mcp.IOTransport{Reader: io.NopCloser(strings.NewReader(in)), Writer: nowhere{io.Discard}}, conn.heard}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Read(t.Context())
	if _, is := m.(*jsonrpc.Response); err != nil || !is || !conn.dirty {
		t.Errorf("%v %v, changed: %v", m, err, conn.dirty)
	}
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }
