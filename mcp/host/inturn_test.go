package host

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The host stops reading from a server that sends requests and reads no answer.
// Once it reads, all its requests are answered.
func TestInTurn_WaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pings, version = 1000, "2025-11-25"
		fromServer, toClient := io.Pipe()
		fromClient, toServer := io.Pipe()
		var sent atomic.Int64
		lines := bufio.NewReader(fromClient)
		begun := make(chan struct{})
		go func() {
			_, _ = lines.ReadString('\n')
			fmt.Fprintf(toClient, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"%s","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`+"\n", version)
			_, _ = lines.ReadString('\n') // the initialized notification
			close(begun)
			for i := range pings {
				fmt.Fprintf(toClient, `{"jsonrpc":"2.0","id":"p%d","method":"ping"}`+"\n", i)
				sent.Add(1)
			}
		}()
		s, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), inTurn{&mcp.IOTransport{Reader: fromServer, Writer: toServer}, func(string) {}}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		synctest.Wait()
		if n := sent.Load(); n > 4 {
			t.Errorf("%d requests were read, of which none is answered", n)
		}
		for i := range pings {
			line, err := lines.ReadString('\n')
			if err != nil || !strings.Contains(line, fmt.Sprintf(`"p%d"`, i)) {
				t.Fatalf("answer %d: %q, %v", i, line, err)
			}
		}
		toClient.Close()
		fromClient.Close()
		_ = s.Wait()
	})
}
