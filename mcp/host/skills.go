package host

import "github.com/modelcontextprotocol/go-sdk/mcp"

type listParams struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type listResult struct {
	mcp.ResultBase
	Skills []Entry `json:"skills"`
	Next   string  `json:"nextCursor,omitempty"`
}

type getParams struct {
	mcp.ParamsBase
	URI string `json:"uri"`
}

type getResult struct {
	mcp.ResultBase
	Skill *Entry `json:"skill"`
}
